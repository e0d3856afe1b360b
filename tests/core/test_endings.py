"""How ranks end, and what is still said and heard then."""

from __future__ import annotations

import pytest

from prism.core.events import AnyEvent, Delivered, Exited, Finished, Interrupted, Raised
from prism.core.instructions import Kill, Probe
from tests.core.actors import (
    MS,
    SECOND,
    Stage,
    launched,
    on_stage,
    posted,
    waited,
)


def test_a_rank_that_raised_waits_for_others_to_come_to_rest() -> None:
    stage = on_stage(2)
    assert stage.hear(Raised(rank=0, error="ValueError: no", traceback="...", site="a.py:3")) == []
    assert stage.pass_time(400 * MS) == [Probe(rank=0), Probe(rank=1)]
    assert stage.pass_time(100 * MS) == [Kill(rank=0), Kill(rank=1)]


def test_a_rank_that_raised_ends_the_run_once_all_others_are_blocked() -> None:
    stage = on_stage(2)
    stage.hear(Raised(rank=0, error="ValueError: no", traceback="..."))
    assert stage.hear(posted(1, 1), waited(1, 1)) == [Kill(rank=0), Kill(rank=1)]


def test_the_run_is_over_when_all_have_ended() -> None:
    stage = on_stage(2)
    stage.hear(*(event(r) for r in range(2) for event in (_finished, _exited)))
    assert (stage.world.over, stage.world.alive, stage.world.diagnosis) == (True, False, None)


@pytest.mark.parametrize(("code", "failed"), [(0, []), (3, [0])])
def test_the_exit_code_of_the_program_decides(code: int, failed: list[int]) -> None:
    stage = on_stage(2)
    stage.hear(Finished(rank=0, code=code))
    assert list(stage.world.failed) == failed
    assert stage.world.ranks[0].code == code


@pytest.mark.parametrize(("code", "failed"), [(0, []), (1, [0]), (-11, [0])])
def test_a_process_that_ends_without_a_word_is_judged_by_its_exit_code(code: int, failed: list[int]) -> None:
    stage = on_stage(2)
    stage.hear(Exited(rank=0, code=code))
    assert list(stage.world.failed) == failed


def test_what_a_rank_tells_at_its_end_is_kept() -> None:
    stage = on_stage(1)
    stage.hear(Finished(rank=0, code=0, cut=True, peak_bytes=512))
    rank = stage.world.ranks[0]
    assert (rank.code, rank.cut, rank.peak_bytes) == (0, True, 512)


def test_an_interruption_kills_whoever_has_a_process() -> None:
    stage = Stage(3, slots=2)
    stage.up(0, 1)
    assert stage.hear(Interrupted(rank=-1)) == [Kill(rank=0), Kill(rank=1)]
    assert stage.hear(Interrupted(rank=-1)) == []
    assert (stage.world.over, stage.world.interrupted, stage.world.diagnosis) == (True, True, None)


def test_after_the_end_only_endings_count() -> None:
    stage = on_stage(2)
    stage.hear(Interrupted(rank=-1))
    assert stage.hear(posted(0, 1), posted(1, 1), Exited(rank=0, code=-9), Exited(rank=1, code=-9)) == []
    assert not stage.world.alive


def test_a_rank_that_starts_after_the_end_is_killed() -> None:
    stage = Stage(1)
    assert stage.hear(Interrupted(rank=-1)) == [Kill(rank=0)]  # in vain, where the process is not made yet
    assert stage.hear(launched(0)) == [Kill(rank=0)]


def test_the_event_that_ends_the_run_starts_nobody() -> None:
    stage = Stage(3, slots=1)
    stage.up(0)
    stage.hear(posted(0, 1), waited(0, 1))
    stage.up(1)
    assert stage.hear(Exited(rank=1, code=0)) == [Kill(rank=0)]
    assert stage.states() == ["blocked", "ended", "new"]


def test_a_rank_that_finished_keeps_its_exit_code_when_it_is_killed() -> None:
    stage = on_stage(2)
    stage.hear(Finished(rank=0, code=0), Interrupted(rank=-1), Exited(rank=0, code=-9), Exited(rank=1, code=-9))
    assert [rank.code for rank in stage.world.ranks.values()] == [0, -9]


def _finished(rank: int) -> Finished:
    return Finished(rank=rank, code=0)


def _exited(rank: int) -> Exited:
    return Exited(rank=rank, code=0)


def test_a_rank_that_is_stopped_while_it_takes_its_result_is_found_out() -> None:
    stage = on_stage(2)
    stage.hear(posted(0, 1), waited(0, 1), posted(1, 1), waited(1, 1), Delivered(rank=1, handle=1))
    stage.hear(*_ended(1))
    stage.pass_time(59 * SECOND)
    assert stage.world.diagnosis is None
    stage.pass_time(2 * SECOND)
    assert stage.world.diagnosis is not None
    assert stage.world.diagnosis.kind == "hang"
    assert stage.world.diagnosis.summary.startswith("rank 0 posted nothing and did not end")


def test_a_rank_that_is_stopped_before_it_leaves_is_found_out() -> None:
    stage = on_stage(2)
    stage.hear(*_ended(1), _finished(0))
    stage.pass_time(61 * SECOND)
    assert stage.world.diagnosis is not None
    assert stage.world.diagnosis.kind == "hang"


def _ended(rank: int) -> list[AnyEvent]:
    return [_finished(rank), _exited(rank)]
