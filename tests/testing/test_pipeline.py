"""A pipeline schedule as ranks: what arrives, and what is told when stages wait for each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from prism.testing import RanksFailed


def pipeline(micro_batches: int) -> list[float]:
    """Each stage adds one to what comes from the stage before; the last gives back what it got to."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    passed = []
    for number in range(micro_batches):
        value = torch.tensor([float(10 * number)])
        if rank > 0:
            dist.recv(value, rank - 1)
        value += 1
        if rank < last:
            dist.send(value, rank + 1)
        passed.append(value.item())
    return passed


def everyone_receives_first() -> None:
    """No stage sends before it has received: nothing ever moves."""
    value = torch.zeros(1)
    dist.recv(value, (dist.get_rank() - 1) % dist.get_world_size())
    dist.send(value, (dist.get_rank() + 1) % dist.get_world_size())


@pytest.mark.prism(size=4)
def test_micro_batches_go_through_all_stages(prism_world: Any) -> None:
    assert prism_world(pipeline, 3)[-1] == [4.0, 14.0, 24.0]


@pytest.mark.prism(4)
def test_a_deadlock_says_which_ranks_wait_and_where(prism_world: Any) -> None:
    with pytest.raises(RanksFailed, match="deadlock") as failed:
        prism_world(everyone_receives_first)
    assert sorted(failed.value.diagnosis.cycle or []) == [0, 1, 2, 3]
    line = everyone_receives_first.__code__.co_firstlineno + 3
    assert "\n  ranks 0-3: waiting in recv on default, at " in str(failed.value)
    assert str(failed.value).endswith(f"test_pipeline.py:{line}")
