"""The small models and steps that the programs of this folder train."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

WIDTH = 16


class Block(nn.Module):
    """Two layers with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


def stack(depth: int = 2) -> nn.Sequential:
    """The same blocks on every rank."""
    torch.manual_seed(1)
    return nn.Sequential(*(Block() for _ in range(depth)))


def data(seed: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch and its target; the rank's own unless a seed is given."""
    generator = torch.Generator().manual_seed(dist.get_rank() if seed is None else seed)
    return torch.randn(8, WIDTH, generator=generator), torch.randn(8, WIDTH, generator=generator)


def train(
    model: Callable[[torch.Tensor], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    steps: int = 3,
    seed: int | None = None,
) -> list[float]:
    """The losses of some steps on one batch."""
    x, target = data(seed)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x).float() - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)
