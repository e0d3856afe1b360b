"""The verdict: when a run is given up, and what its diagnosis says."""

from __future__ import annotations

from collections.abc import Sequence

from prism.core.diagnosis import Diagnosis, LastCommon, RankState
from prism.core.events import Exited, Finished, Polled, Probed, Raised, Suspended
from prism.core.instructions import AnyInstruction, Kill, Launch, Probe, Suspend
from prism.core.record import RankRecord
from prism.core.stage.answers import Answers
from prism.core.stage.phrases import LONGEST
from prism.core.stage.verdict import GRACE
from prism.core.stage.world import World
from tests.core.actors import (
    MS,
    SECOND,
    Stage,
    all_reduce,
    asked,
    barrier,
    blocked,
    diagnosis,
    launched,
    make_groups,
    on_stage,
    posted,
    recv,
    send,
)


class TestMismatch:
    def test_both_sides_are_named(self) -> None:
        stage = on_stage(3)
        for rank in range(3):
            stage.hear(posted(rank, 1, barrier()))
        blocked(stage, 0, 2, all_reduce(4), line=5)
        blocked(stage, 2, 2, all_reduce(4), line=5)
        assert blocked(stage, 1, 2, all_reduce(8), line=6)[0] == Kill(rank=0)
        assert diagnosis(stage) == Diagnosis(
            kind="mismatch",
            summary="operation 2 of group default: elements: rank 0 has 4, rank 1 has 8; "
            "ranks 0, 2 posted all_reduce of 4 x float32 at train.py:5; "
            "rank 1 posted all_reduce of 8 x float32 at train.py:6",
            ranks=[
                RankState(rank=0, state="posted", op="all_reduce", group="default", seq=2, callsite="train.py:5"),
                RankState(rank=1, state="posted", op="all_reduce", group="default", seq=2, callsite="train.py:6"),
                RankState(rank=2, state="posted", op="all_reduce", group="default", seq=2, callsite="train.py:5"),
            ],
            last_common=LastCommon(op="barrier", group="default", seq=1),
        )

    def test_it_is_told_once_all_members_have_posted(self) -> None:
        stage = on_stage(3)
        stage.hear(posted(0, 1, all_reduce(4)), posted(1, 1, all_reduce(8)))
        assert stage.world.diagnosis is None
        stage.hear(posted(2, 1, all_reduce(4)))
        assert diagnosis(stage).kind == "mismatch"

    def test_it_is_told_after_a_while_where_a_member_computes_on(self) -> None:
        stage = on_stage(3)
        stage.hear(posted(0, 1, all_reduce(4)), posted(1, 1, all_reduce(8)))
        stage.pass_time(GRACE - 1)
        assert stage.world.diagnosis is None
        stage.pass_time(1)
        assert diagnosis(stage).kind == "mismatch"
        assert [state.state for state in diagnosis(stage).ranks] == ["posted", "posted", "running"]

    def test_it_is_told_at_once_where_nobody_can_act(self) -> None:
        stage = on_stage(3)
        make_groups(stage, ("a", (0, 2)))
        blocked(stage, 2, 1, group="a")
        blocked(stage, 0, 1, all_reduce(4))
        assert stage.world.diagnosis is None
        blocked(stage, 1, 1, all_reduce(8))
        assert diagnosis(stage).kind == "mismatch"

    def test_sides_of_a_message(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1, send(to=1, count=5), site="train.py:5"))
        stage.hear(posted(1, 1, recv(source=0, count=4), site="train.py:6"))
        assert diagnosis(stage).summary == (
            "a message on group default: message from rank 0 to rank 1: 5 x float32 are sent, 4 x float32 are awaited; "
            "rank 0 posted send of 5 x float32 at train.py:5; rank 1 posted recv of 4 x float32 at train.py:6"
        )


class TestFailure:
    def test_it_tells_who_raised_and_who_waits_since(self) -> None:
        stage = on_stage(3)
        blocked(stage, 1, 1, line=5)
        blocked(stage, 2, 1, line=5)
        assert stage.hear(Raised(rank=0, error="ValueError: no", traceback="Trace", site="train.py:3"))[0].rank == 0
        found = diagnosis(stage)
        assert found.kind == "rank_failed"
        assert found.summary == (
            "rank 0 raised ValueError: no at train.py:3; "
            "then ranks 1-2 wait in barrier, operation 1 of group default, at train.py:5, which rank 0 has not posted"
        )
        assert found.ranks[0] == RankState(
            rank=0, state="raised ValueError: no at train.py:3", callsite="train.py:3", traceback="Trace"
        )

    def test_those_who_failed_are_told_in_the_order_of_their_failures(self) -> None:
        stage = on_stage(2)
        stage.hear(Raised(rank=1, error="ValueError: no", traceback=""))
        stage.now += MS
        stage.hear(Exited(rank=0, code=7))
        assert diagnosis(stage).summary == "rank 1 raised ValueError: no; rank 0 ended with exit code 7"

    def test_a_rank_that_ran_out_of_memory(self) -> None:
        stage = on_stage(1)
        stage.hear(Raised(rank=0, error="torch.OutOfMemoryError: 2 GiB", traceback=""))
        assert diagnosis(stage).kind == "oom"

    def test_a_process_that_a_signal_ended(self) -> None:
        for code, told in ((-11, "rank 0 was killed by SIGSEGV"), (-99, "rank 0 was killed by signal 99")):
            stage = on_stage(1)
            stage.hear(Exited(rank=0, code=code))
            assert (diagnosis(stage).kind, diagnosis(stage).summary) == ("rank_failed", told)

    def test_a_program_that_ended_with_an_exit_code(self) -> None:
        stage = on_stage(2)
        stage.hear(Finished(rank=0, code=3), Exited(rank=0, code=3))
        assert stage.world.diagnosis is None
        stage.hear(Finished(rank=1, code=0), Exited(rank=1, code=0))
        assert diagnosis(stage).summary == "rank 0 ended with exit code 3"

    def test_what_a_program_gave_sys_exit_is_told_with_the_line(self) -> None:
        stage = on_stage(1)
        stage.hear(Finished(rank=0, code=1, said="no data", site="train.py:3"), Exited(rank=0, code=1))
        assert diagnosis(stage).summary == "rank 0 ended with exit code 1: no data, last seen at train.py:3"

    def test_of_a_long_message_the_summary_has_the_beginning_on_one_line(self) -> None:
        for message in ("ValueError: " + "x" * 100_000, "ValueError: no\n" + "x" * 100_000):
            stage = on_stage(1)
            stage.hear(Raised(rank=0, error=message, traceback=f"Trace\n{message}", site="train.py:3"))
            found = diagnosis(stage)
            assert found.summary == f"rank 0 raised {message.splitlines()[0][:LONGEST]} ... at train.py:3"
            assert found.ranks[0].state == found.summary.removeprefix("rank 0 ")
            assert found.ranks[0].traceback == f"Trace\n{message}"

    def test_of_a_traceback_in_a_message_the_summary_has_the_last_line(self) -> None:
        message = "SpawnError: \n\n-- It ended:\nTraceback (most recent call last):\n  at f.py\nValueError: odd\n\n"
        stage = on_stage(1)
        stage.hear(Raised(rank=0, error=message, traceback=message, site="train.py:3"))
        assert diagnosis(stage).summary == "rank 0 raised SpawnError: ... ValueError: odd at train.py:3"


class TestHang:
    def test_a_rank_that_neither_posts_nor_ends(self) -> None:
        stage = on_stage(3, hang_after=10 * SECOND)
        blocked(stage, 0, 1, line=5)
        blocked(stage, 2, 1, line=5)
        stage.pass_time(10 * SECOND - 1)
        assert stage.world.diagnosis is None
        stage.pass_time(1)
        found = diagnosis(stage)
        assert found.kind == "hang"
        assert found.summary == (
            "rank 1 posted nothing and did not end for 10 s; "
            "ranks 0, 2 wait in barrier, operation 1 of group default, at train.py:5, which rank 1 has not posted"
        )
        assert [state.rank for state in found.ranks] == [1, 0, 2]

    def test_where_each_of_them_was_last_seen(self) -> None:
        stage = on_stage(4, hang_after=10 * SECOND)
        for rank, line in ((0, 5), (1, 6), (2, 5)):
            stage.hear(posted(rank, 1, barrier(), site=f"train.py:{line}"))
        stage.pass_time(10 * SECOND)
        assert diagnosis(stage).summary == (
            "ranks 0, 2 posted nothing and did not end for 10 s, last seen at train.py:5; "
            "rank 1 posted nothing and did not end for 10 s, last seen at train.py:6; "
            "rank 3 posted nothing and did not end for 10 s"
        )

    def test_a_post_counts_as_life(self) -> None:
        stage = on_stage(1, hang_after=10 * SECOND)
        stage.now += 9 * SECOND
        stage.hear(posted(0, 1))
        stage.pass_time(9 * SECOND)
        assert stage.world.diagnosis is None

    def test_a_poll_does_not_count_as_life(self) -> None:
        stage = on_stage(1, hang_after=10 * SECOND)
        stage.hear(posted(0, 1, recv(source=0)))
        for _ in range(11):
            stage.now += SECOND
            stage.hear(Polled(rank=0, handle=1))
            stage.pass_time(0)
        assert diagnosis(stage).kind == "hang"

    def test_a_check_of_the_store_that_fails_does_not_count_as_life(self) -> None:
        stage = on_stage(1, hang_after=10 * SECOND)
        for _ in range(11):
            stage.now += SECOND
            stage.hear(asked(0, "check", "key"))
            stage.pass_time(0)
        assert diagnosis(stage).kind == "hang"

    def test_ranks_that_hang_in_turns_on_one_slot(self) -> None:
        stage = Stage(2, slots=1, hang_after=10 * SECOND)
        _obey(stage, stage.first)
        for _ in range(60):
            _obey(stage, stage.pass_time(SECOND))
        assert diagnosis(stage).kind == "hang"


def _obey(stage: Stage, told: Sequence[AnyInstruction]) -> None:
    """What the processes of ranks that compute for ever say to these instructions, and so on."""
    for instruction in told:
        match instruction:
            case Launch(rank=rank):
                _obey(stage, stage.up(rank))
            case Probe(rank=rank):
                _obey(stage, stage.hear(Probed(rank=rank, waiting=False)))
            case Suspend(rank=rank):
                _obey(stage, stage.hear(Suspended(rank=rank)))


def test_a_rank_that_does_not_repeat_what_was_captured() -> None:
    world = World([0], 1, Answers([RankRecord(0)]), 60 * SECOND, preempt=False)
    world.start()
    world.handle(launched(0))
    world.handle(posted(0, 1, all_reduce(4), site="train.py:5"))
    assert world.diagnosis is not None
    assert world.diagnosis.kind == "diverged"
    assert world.diagnosis.summary == (
        "rank 0 does not repeat what was captured: then nothing more; "
        "now all_reduce of 4 x float32 on group default at train.py:5"
    )
