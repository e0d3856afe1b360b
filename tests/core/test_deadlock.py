"""Deadlocks: found as soon as they are certain, never before, and told with who waits for whom."""

from __future__ import annotations

from prism.core.diagnosis import Diagnosis, LastCommon, RankState
from prism.core.events import Delivered, Exited, Finished, Probed
from prism.core.instructions import Kill
from prism.core.stage.stuck import SURE_PROBES
from prism.core.stage.turns import QUANTUM
from tests.core.actors import (
    MS,
    SECOND,
    asked,
    barrier,
    blocked,
    diagnosis,
    make_groups,
    on_stage,
    posted,
    recv,
    send,
)


def test_two_ranks_that_wait_for_each_other() -> None:
    stage = on_stage(2)
    make_groups(stage, ("a", (0, 1)), ("b", (0, 1)))
    blocked(stage, 0, 1, group="a", line=10)
    assert blocked(stage, 1, 1, group="b", line=20) == [Kill(rank=0), Kill(rank=1)]
    assert diagnosis(stage) == Diagnosis(
        kind="deadlock",
        summary="rank 0 waits in barrier, operation 1 of group a, at train.py:10, which rank 1 has not posted; "
        "rank 1 waits in barrier, operation 1 of group b, at train.py:20, which rank 0 has not posted",
        ranks=[
            RankState(rank=0, state="waiting", op="barrier", group="a", seq=1, callsite="train.py:10"),
            RankState(rank=1, state="waiting", op="barrier", group="b", seq=1, callsite="train.py:20"),
        ],
        cycle=[0, 1],
    )


def test_a_circle_begins_with_its_lowest_rank() -> None:
    stage = on_stage(4)
    for rank, source in ((1, 3), (3, 2), (2, 1)):
        blocked(stage, rank, 1, recv(source=source))
    blocked(stage, 0, 1, recv(source=3))
    assert diagnosis(stage).cycle == [1, 3, 2]


def test_a_rank_that_ended_without_posting() -> None:
    stage = on_stage(3)
    for rank in range(3):
        stage.hear(posted(rank, 1, barrier()))
    stage.hear(*(Delivered(rank=rank, handle=1) for rank in range(3)))
    blocked(stage, 0, 2, line=5)
    blocked(stage, 1, 2, line=5)
    assert stage.hear(Finished(rank=2, code=0))[1:] == []
    assert stage.hear(Exited(rank=2, code=0)) == [Kill(rank=0), Kill(rank=1)]
    found = diagnosis(stage)
    assert found.summary == (
        "ranks 0-1 wait in barrier, operation 2 of group default, at train.py:5, which rank 2 has not posted; "
        "rank 2 has ended (exit code 0)"
    )
    assert (found.kind, found.cycle) == ("deadlock", None)
    assert found.last_common == LastCommon(op="barrier", group="default", seq=1)


def test_it_is_found_while_an_unrelated_rank_computes() -> None:
    stage = on_stage(3)
    make_groups(stage, ("a", (0, 1)), ("b", (0, 1)))
    blocked(stage, 0, 1, group="a")
    blocked(stage, 1, 1, group="b")
    assert stage.world.diagnosis is None
    assert stage.pass_time(50 * MS) == [Kill(rank=r) for r in range(3)]
    assert [state.state for state in diagnosis(stage).ranks] == ["waiting", "waiting", "running"]


def test_ranks_that_wait_for_one_that_computes_are_not_stuck() -> None:
    stage = on_stage(3)
    blocked(stage, 0, 1)
    blocked(stage, 1, 1)
    stage.pass_time(SECOND)
    assert stage.world.diagnosis is None


def test_a_message_that_nobody_sends() -> None:
    stage = on_stage(2)
    blocked(stage, 0, 1, recv(source=1), line=3)
    blocked(stage, 1, 1, recv(source=0, tag=9), line=4)
    assert diagnosis(stage).summary == (
        "rank 0 waits in recv from rank 1 at train.py:3, which has no matching send; "
        "rank 1 waits in recv from rank 0 at train.py:4, which has no matching send"
    )


def test_a_message_that_nobody_receives() -> None:
    stage = on_stage(2)
    stage.hear(Exited(rank=1, code=0))
    blocked(stage, 0, 1, send(to=1), line=3)
    assert diagnosis(stage).summary == (
        "rank 0 waits in send to rank 1 at train.py:3, which has no matching receive; rank 1 has ended (exit code 0)"
    )


def test_a_message_from_any_rank_that_nobody_sends() -> None:
    stage = on_stage(3)
    stage.hear(Exited(rank=1, code=0), Exited(rank=2, code=0))
    blocked(stage, 0, 1, recv(), line=3)
    assert diagnosis(stage).summary.startswith(
        "rank 0 waits in recv from any rank at train.py:3, which has no matching send"
    )


def test_one_that_can_send_is_enough_for_a_receive_from_any_rank() -> None:
    stage = on_stage(3)
    stage.hear(Exited(rank=1, code=0))
    blocked(stage, 0, 1, recv())
    stage.pass_time(50 * MS)
    assert stage.world.diagnosis is None


def test_a_store_key_that_nobody_sets() -> None:
    stage = on_stage(2)
    stage.hear(asked(0, "get", "address", site="train.py:8"))
    stage.hear(asked(1, "wait", "ready", "address", site="train.py:9"))
    found = diagnosis(stage)
    assert (found.kind, found.cycle) == ("deadlock", None)
    assert found.summary == (
        "rank 0 waits for store key address at train.py:8; rank 1 waits for store keys ready, address at train.py:9"
    )
    assert found.ranks[0] == RankState(rank=0, state="waits for store key address", callsite="train.py:8")


def test_only_the_keys_that_are_missing_are_told() -> None:
    stage = on_stage(1)
    stage.hear(asked(0, "set", "here"), asked(0, "wait", "here", "gone", site="train.py:9"))
    assert diagnosis(stage).summary == "rank 0 waits for store key gone at train.py:9"


def test_a_rank_with_a_result_on_its_way_may_still_act() -> None:
    stage = on_stage(2)
    make_groups(stage, ("a", (0, 1)), ("b", (0, 1)))
    stage.hear(posted(0, 1, group="a"))
    blocked(stage, 0, 2, group="b")
    stage.hear(posted(1, 1, group="a"), Delivered(rank=1, handle=1))
    blocked(stage, 1, 2, group="a")  # a callback on rank 0's result might post it
    assert stage.world.diagnosis is None
    assert stage.hear(Delivered(rank=0, handle=1)) == [Kill(rank=0), Kill(rank=1)]
    assert diagnosis(stage).kind == "deadlock"


def test_a_look_at_a_rank_does_not_hide_the_result_on_its_way() -> None:
    stage = on_stage(2)
    make_groups(stage, ("a", (0, 1)), ("b", (0, 1)))
    stage.hear(posted(0, 1, group="a"))
    stage.pass_time(QUANTUM)
    blocked(stage, 0, 2, group="b")
    stage.hear(Probed(rank=1, waiting=False), posted(1, 1, group="a"), Delivered(rank=1, handle=1))
    blocked(stage, 1, 2, group="a")  # a callback on rank 0's result might post it
    assert stage.world.diagnosis is None


def test_a_rank_asleep_where_nobody_sees_it_counts_as_blocked() -> None:
    stage = on_stage(2)
    make_groups(stage, ("a", (0, 1)), ("b", (0, 1)))
    stage.hear(posted(0, 1, group="a"))
    blocked(stage, 1, 1, group="b")
    for _ in range(SURE_PROBES):
        assert stage.world.diagnosis is None
        stage.pass_time(QUANTUM)
        stage.hear(Probed(rank=0, waiting=True))
    stage.pass_time(QUANTUM)
    assert (diagnosis(stage).kind, diagnosis(stage).cycle) == ("deadlock", [0, 1])


def test_a_rank_asleep_once_is_awake_when_it_has_its_result() -> None:
    stage = on_stage(2)
    make_groups(stage, ("a", (0, 1)), ("b", (0, 1)), ("c", (0, 1)))
    stage.hear(posted(0, 1, group="a"), posted(0, 2, group="b"))
    for _ in range(SURE_PROBES):
        stage.pass_time(QUANTUM)
        stage.hear(Probed(rank=0, waiting=True), Probed(rank=1, waiting=False))
    stage.hear(posted(1, 1, group="a"))
    blocked(stage, 1, 2, group="c")
    stage.hear(Delivered(rank=0, handle=1), Delivered(rank=1, handle=1))  # rank 0 computes, and will post on "c"
    stage.pass_time(50 * MS)
    assert stage.world.diagnosis is None
