"""A pipeline schedule as ranks: what arrives, and what is told when stages wait for each other."""

from __future__ import annotations

from datetime import timedelta
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


def everyone_would_wait_for_half_an_hour() -> None:
    """The last rank leaves out a barrier, and says in the store what nobody hears: torch would wait for its timeout."""
    patience = timedelta(minutes=30)
    dist.init_process_group("gloo", timeout=patience)
    pair = dist.new_group([0, 1], timeout=patience)
    if dist.get_rank() < 2:
        dist.all_reduce(torch.ones(1), group=pair, async_op=True).wait(patience)
        dist.monitored_barrier(timeout=patience)
    dist.distributed_c10d._get_default_store().wait(["never"], patience)


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


@pytest.mark.prism(size=3)
def test_a_timeout_of_half_an_hour_takes_no_time(prism_world: Any) -> None:
    with pytest.raises(RanksFailed, match=r"deadlock: .*barrier") as failed:
        prism_world(everyone_would_wait_for_half_an_hour, backend=None)
    first = everyone_would_wait_for_half_an_hour.__code__.co_firstlineno
    assert f"test_pipeline.py:{first + 7}" in str(failed.value)
    assert f"test_pipeline.py:{first + 8}" in str(failed.value)
