"""What NCCL's calls hold the host for, in the times of a rank: where its device idles, and nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import accumulate, chain
from pathlib import Path
from types import SimpleNamespace

from prism.core.events import Clocked, ClockState, Noticed, Timed
from prism.core.graph import OpKind
from prism.core.stage.kept import Kept
from prism.gpu.cuda.nvml import Clocks
from prism.gpu.cuda.posting_cost import NOTHING, ROUNDS, WARM_UPS, PostingCost, measured
from prism.gpu.cuda.watch import ClockWatch
from prism.result import DeviceClocks
from tests.gpu.cuda_stage import Stage, on_stage
from tests.gpu.test_cuda_capture import floats

COST = PostingCost({OpKind.ALL_REDUCE: 30_000, OpKind.BROADCAST: 10_000, OpKind.ALL_GATHER: 20_000}, wait=4_000)


def test_the_middle_one_of_many_counts_after_the_first() -> None:
    posts = [900] * WARM_UPS + [*range(10, 10 + ROUNDS)]
    waits = [900] * WARM_UPS + [7] * ROUNDS
    now = iter(accumulate(chain.from_iterable(zip(posts, waits, [0] * len(posts), strict=True)), initial=0))
    work = SimpleNamespace(wait=lambda: None)
    cost = measured({OpKind.ALL_REDUCE: lambda: work}, now=lambda: next(now))
    assert cost == PostingCost({OpKind.ALL_REDUCE: 10 + ROUNDS // 2}, wait=7)


def test_kinds_that_were_not_measured_cost_what_the_middle_one_does() -> None:
    assert [COST.of(kind) for kind in (OpKind.BROADCAST, OpKind.SEND_RECV)] == [10_000, 20_000]
    assert (NOTHING.of(OpKind.SEND_RECV), NOTHING.told()) == (0, {})


class TestOfARank:
    def test_posts_and_waits_are_charged(self, tmp_path: Path) -> None:
        with _on_stage(tmp_path) as stage:
            stage.group.allreduce([floats(1)]).wait()
            stage.link.conclude()
            assert _durations(stage) == [30_000, 4_000]

    def test_a_batch_is_charged_once(self, tmp_path: Path) -> None:
        with _on_stage(tmp_path) as stage:
            for _ in range(2):
                stage.group.start_coalescing()
                stage.group.send([floats(1)], 1)
                stage.group.recv([floats(1)], 1)
                stage.group.end_coalescing()
            stage.link.conclude()
            assert _durations(stage) == [20_000, 0, 20_000, 0]

    def test_what_cannot_be_measured_is_told_once_and_left_out(self, tmp_path: Path) -> None:
        with _on_stage(tmp_path) as stage:
            stage.driver.nccl = None
            for _ in range(2):
                stage.group.allreduce([floats(1)])
            stage.link.conclude()
            assert _durations(stage) == [0, 0]
            assert "no NCCL" in stage.line.hear(Noticed).summary
            assert not [event for event in stage.line._heard if isinstance(event, Noticed)]

    def test_the_result_says_what_was_charged_and_how_often(self, tmp_path: Path) -> None:
        with _on_stage(tmp_path) as stage:
            stage.link._watch = ClockWatch(0, look=lambda gpu: Clocks(1980, 600.0, 50, ()))
            stage.group.allreduce([floats(1)])
            stage.driver.work(1.0)
            stage.link.mark()
            stage.link.conclude()
            told = DeviceClocks.of(stage.line.hear(Clocked))
            assert told.posting_ns == {"all_reduce": 30_000, "broadcast": 10_000, "all_gather": 20_000, "wait": 4_000}
            assert told.idle == 1 / 3  # at the post; after a first iteration the device is let come to rest


def test_of_what_was_never_timed_nothing_is_said() -> None:
    state = ClockState(1980, 80, 34)
    assert DeviceClocks.of(Clocked(rank=0, before=state, after=state)).idle is None


@contextlib.contextmanager
def _on_stage(folder: Path) -> Iterator[Stage]:
    """A rank that is timed, after its first step; its device idles."""
    with on_stage(folder, answered=True, kept=Kept(payloads="none")) as stage:
        stage.driver.nccl = COST
        stage.link.mark()
        yield stage


def _durations(stage: Stage) -> list[int]:
    """Of all segments but the first, before which the device was not used."""
    return list(stage.line.hear(Timed).durations[1:])
