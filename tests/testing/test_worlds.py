"""What prism_world gives back and how it fails."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from prism.testing import RanksFailed

PROGRAMS = Path(__file__).parent.parent / "programs"


def test_a_function_may_be_local_and_take_arguments(prism_world: Any) -> None:
    scale = 3

    def program(offset: int, *, sign: int) -> int:
        return sign * (scale * dist.get_rank() + offset)

    ranks = prism_world(program, 100, sign=-1, size=2)
    assert list(ranks) == [-100, -103]
    assert ranks[1] == -103
    assert ranks == [-100, -103]
    assert ranks != [-100]
    assert repr(ranks) == "Ranks([-100, -103])"
    assert ranks.result.status != "failed"


def test_it_runs_scripts_with_what_torchrun_would_set(prism_world: Any) -> None:
    ranks = prism_world(PROGRAMS / "averages_and_says_so.py", 1, size=2)
    with pytest.raises(IndexError, match="rank 2 does not exist, there are ranks 0 to 1"):
        ranks.log(2)
    assert ranks.log(0)
    assert len(ranks) == 0


def test_a_function_may_make_its_own_groups(prism_world: Any) -> None:
    def program() -> str:
        dist.init_process_group("nccl")
        return str(dist.get_backend())

    assert list(prism_world(program, size=2, backend=None)) == ["nccl", "nccl"]


def test_an_exception_names_the_rank_and_shows_its_output(prism_world: Any) -> None:
    def program() -> None:
        print("about to fail")
        if dist.get_rank() == 1:
            raise ValueError("no such layer")
        dist.barrier()

    with pytest.raises(RanksFailed) as failed:
        prism_world(program, size=2)
    assert failed.value.diagnosis.kind == "rank_failed"
    assert "ValueError: no such layer" in str(failed.value)
    assert "about to fail" in failed.value.logs[1]


@pytest.mark.parametrize("code", [0, None])
def test_a_rank_that_leaves_before_its_function_returned_is_named(prism_world: Any, code: int | None) -> None:
    def program() -> int:
        if dist.get_rank() > 0:
            print("enough")
            raise SystemExit(code)
        return 1

    with pytest.raises(RanksFailed) as failed:
        prism_world(program, size=3)
    assert str(failed.value).splitlines()[:2] == [
        "rank_failed: ranks 1-2 ended before their function returned",
        "  ranks 1-2: ended with exit code 0",
    ]
    assert failed.value.logs == {1: "enough\n", 2: "enough\n"}


def test_so_is_one_whose_process_ends_at_once(prism_world: Any) -> None:
    with pytest.raises(RanksFailed, match="rank 0 ended before its function returned"):
        prism_world(os._exit, 0, size=1)


def test_a_script_may_leave(prism_world: Any, tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text("import sys\nsys.exit(0)")
    assert len(prism_world(script, size=1)) == 0


def test_a_capacity_is_held(prism_world: Any) -> None:
    def program() -> int:
        return int(torch.zeros(1 << 20).nbytes)

    assert list(prism_world(program, size=2, memory=1 << 23)) == [1 << 22] * 2
    with pytest.raises(RanksFailed, match="oom"):
        prism_world(program, size=2, memory=1 << 21)


def test_a_capacity_may_be_written_as_in_a_scenario(prism_world: Any) -> None:
    assert prism_world(torch.cuda.device_count, size=1, memory="8MiB") == [0]
    with pytest.raises(ValueError, match=r"expected a size such as 80GiB .*got '8 megs'"):
        prism_world(dist.get_rank, size=1, memory="8 megs")


def test_a_backend_that_nothing_stands_for_is_refused(prism_world: Any) -> None:
    assert prism_world(dist.get_rank, size=1, backend="cpu:gloo,cuda:nccl") == [0]
    with pytest.raises(ValueError, match="backend: expected gloo or nccl, or None for none, got 'mpi'"):
        prism_world(dist.get_rank, size=1, backend="mpi")


def test_what_cannot_travel_is_said(prism_world: Any) -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"lambda.* cannot go to the ranks: it has lock, a lock, from outside"):
        prism_world(lambda: lock.locked() if lock else None, size=1)
    with pytest.raises(TypeError, match=r"get_rank cannot go to the ranks: it has argument 0, a lock, from outside"):
        prism_world(dist.get_rank, lock, size=1)


def test_what_cannot_be_given_back_is_said(prism_world: Any) -> None:
    def program() -> Any:
        return threading.Lock()

    with pytest.raises(RanksFailed, match="returned what cannot be given back: lock"):
        prism_world(program, size=1)


def test_a_size_is_needed(prism_world: Any) -> None:
    with pytest.raises(TypeError, match="needs a size"):
        prism_world(dist.get_rank)


def test_after_a_failure_the_next_run_is_whole(prism_world: Any) -> None:
    def fails() -> None:
        raise RuntimeError

    with pytest.raises(RanksFailed):
        prism_world(fails, size=2)
    assert list(prism_world(dist.get_rank, size=2)) == [0, 1]
