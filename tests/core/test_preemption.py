"""Ranks that keep their slot and say nothing: looked at, stopped for others, and woken again."""

from __future__ import annotations

import pytest

from prism.core.events import Exited, Finished, Probed, Suspended, Ticked
from prism.core.instructions import Launch, Leave, Probe, Resume, Run, Suspend
from prism.core.stage.turns import QUANTUM
from tests.core.actors import (
    Stage,
    all_reduce,
    asked,
    joined,
    on_stage,
    posted,
    waited,
)


def silent() -> Stage:
    """Rank 0 has the only slot and says nothing for a quantum; rank 1 waits for the slot."""
    stage = Stage(2, slots=1)
    stage.up(0)
    assert stage.pass_time(QUANTUM - 1) == []
    assert stage.pass_time(1) == [Probe(rank=0)]
    return stage


def test_a_silent_rank_is_looked_at_once() -> None:
    assert silent().pass_time(QUANTUM) == []


def test_a_silent_rank_is_stopped_for_others() -> None:
    stage = silent()
    assert stage.hear(Probed(rank=0, waiting=False)) == [Suspend(rank=0)]
    assert stage.hear(Suspended(rank=0)) == [Launch(rank=1)]
    stage.up(1)
    assert stage.hear(Finished(rank=1, code=0)) == [Leave(rank=1), Resume(rank=0)]
    assert stage.states() == ["running", "finishing"]


def test_a_silent_rank_goes_on_where_nobody_waits() -> None:
    stage = on_stage(1)
    stage.pass_time(QUANTUM)
    assert stage.hear(Probed(rank=0, waiting=False)) == []


def test_a_rank_that_speaks_is_left_alone() -> None:
    stage = Stage(2, slots=1)
    stage.up(0)
    stage.now += QUANTUM // 2
    stage.hear(posted(0, 1))
    assert stage.pass_time(QUANTUM // 2) == []


def test_a_rank_that_blocked_before_it_was_stopped_is_woken_but_gets_no_slot() -> None:
    stage = silent()
    stage.hear(Probed(rank=0, waiting=False))
    assert stage.hear(posted(0, 1), waited(0, 1)) == [Launch(rank=1)]
    assert stage.hear(Suspended(rank=0)) == [Resume(rank=0)]
    assert stage.states() == ["blocked", "launching"]


def test_a_rank_that_finished_before_it_was_stopped_is_woken_to_leave() -> None:
    stage = silent()
    stage.hear(Probed(rank=0, waiting=False))
    assert stage.hear(Finished(rank=0, code=0)) == [Leave(rank=0), Launch(rank=1)]
    assert stage.hear(Suspended(rank=0)) == [Resume(rank=0)]


def test_a_rank_that_got_a_slot_back_before_it_was_stopped_gets_in_line_again() -> None:
    stage = silent()
    stage.hear(Probed(rank=0, waiting=False), posted(0, 1), waited(0, 1))
    stage.up(1)
    assert stage.hear(posted(1, 1), posted(1, 2), waited(1, 2))[-1] == Run(rank=0)
    assert stage.hear(Suspended(rank=0)) == [Resume(rank=0)]
    assert stage.states() == ["running", "blocked"]


def test_a_rank_with_a_sum_to_do_is_not_stopped() -> None:
    stage = Stage(3, slots=2)
    stage.up(0, 1)
    stage.hear(joined(0, (0, 1), "pair"), joined(1, (0, 1), "pair"))
    stage.pass_time(QUANTUM)
    assert stage.hear(Probed(rank=1, waiting=False)) == [Suspend(rank=1)]
    stage.hear(posted(0, 1, all_reduce(), "pair"), posted(1, 1, all_reduce(), "pair"))
    assert stage.hear(Suspended(rank=1)) == [Resume(rank=1)]
    assert stage.states() == ["running", "running", "new"]


def test_a_rank_that_died_before_it_was_stopped_stays_dead() -> None:
    stage = silent()
    stage.hear(Probed(rank=0, waiting=False), Exited(rank=0, code=0))
    assert stage.hear(Suspended(rank=0)) == []


@pytest.mark.parametrize("action", ["add", "count", "compare_set"])
def test_a_rank_that_polls_by_any_store_call_makes_room(action: str) -> None:
    stage = Stage(2, slots=1)
    stage.up(0)
    told = []
    for _ in range(4):
        stage.now += QUANTUM // 2
        told += stage.hear(asked(0, action, "key"), Ticked(rank=-1))
    assert Probe(rank=0) in told
