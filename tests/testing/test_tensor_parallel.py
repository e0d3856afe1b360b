"""A tensor-parallel layer as 64 ranks: an example of a test with `prism_world`."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn


class ColumnThenRow(nn.Module):
    """Two linear layers, the first cut by columns and the second by rows, so that one all_reduce joins them."""

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        self.first = nn.Parameter(first.chunk(size, dim=0)[rank].clone())
        self.second = nn.Parameter(second.chunk(size, dim=1)[rank].clone())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The outputs, on every rank."""
        outputs = torch.relu(inputs @ self.first.T) @ self.second.T
        dist.all_reduce(outputs)
        return outputs


def weights() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs and the weights of both layers, the same on every rank."""
    torch.manual_seed(0)
    return torch.randn(4, 32), torch.randn(128, 32), torch.randn(16, 128)


def forward_in_parallel() -> torch.Tensor:
    """What one rank computes."""
    inputs, first, second = weights()
    return ColumnThenRow(first, second)(inputs).detach()


def test_64_shards_compute_what_one_layer_does(prism_world: Any) -> None:
    inputs, first, second = weights()
    alone = torch.relu(inputs @ first.T) @ second.T
    outputs = prism_world(forward_in_parallel, size=64)
    assert len(outputs) == 64
    for output in outputs:
        torch.testing.assert_close(output, alone, rtol=1e-4, atol=1e-4)
