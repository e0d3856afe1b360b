"""Sandbox ranks that wait in their engines: no deadlock among virtual ranks, and a hang names what is unfinished."""

from __future__ import annotations

from prism.core.diagnosis import Diagnosis, RankState
from prism.core.events import Exited, Finished
from tests.core.actors import MS, SECOND, all_reduce, posted, recv, send, waited
from tests.core.sandbox_stage import HANG_AFTER, Emulated, completed


def test_a_wait_among_virtual_ranks_is_neither_a_deadlock_nor_pre_empted() -> None:
    emulated = Emulated(0, 2)
    emulated.reduces(0)
    emulated.reduces(2)
    assert [emulated.pass_time(SECOND) for _ in range(9)] == [[]] * 9
    assert emulated.world.diagnosis is None


def test_a_silent_rank_hangs_in_its_operation_among_virtual_members() -> None:
    emulated = Emulated(0)
    emulated.reduces(0)
    emulated.pass_time(HANG_AFTER)
    assert emulated.diagnosis() == Diagnosis(
        kind="hang",
        summary="rank 0 posted nothing and did not end for 10 s; "
        "rank 0 waits in all_reduce, operation 1 of group default, at train.py:5 (waited for at train.py:6); "
        "ranks 1-3 of it are virtual",
        ranks=[
            RankState(rank=0, state="waiting", op="all_reduce", group="default", seq=1, callsite="train.py:5"),
        ],
    )


def test_a_sandbox_rank_that_has_not_posted_is_told_apart_from_virtual_ones() -> None:
    emulated = Emulated(0, 2)
    emulated.reduces(0)
    emulated.pass_time(HANG_AFTER)
    assert emulated.diagnosis().summary == (
        "ranks 0, 2 posted nothing and did not end for 10 s; "
        "rank 0 waits in all_reduce, operation 1 of group default, at train.py:5 (waited for at train.py:6), "
        "which rank 2 has not posted; ranks 1, 3 of it are virtual"
    )


def test_a_rank_that_hangs_in_a_message() -> None:
    emulated = Emulated(0)
    emulated.reduces(0)
    emulated.hear(completed(0, 1), posted(0, 2, send(to=1), site="train.py:7"))
    emulated.hear(waited(0, 2, blocks=False, site="train.py:7"))
    emulated.pass_time(HANG_AFTER)
    assert emulated.diagnosis().summary.endswith("; rank 0 waits in send to rank 1 at train.py:7, which is virtual")


def test_a_message_between_sandbox_ranks_has_both_its_ends_or_one() -> None:
    for posts, lacking in ((False, ", which has no matching receive"), (True, "")):
        emulated = Emulated(0, 1)
        for rank in (0, 1):
            emulated.reduces(rank)
            emulated.hear(completed(rank, 1))
        emulated.hear(posted(0, 2, send(to=1), site="train.py:7"), waited(0, 2, blocks=False, site="train.py:7"))
        if posts:
            emulated.hear(posted(1, 2, recv(source=0)))
        emulated.pass_time(HANG_AFTER)
        assert emulated.diagnosis().summary.endswith(f"; rank 0 waits in send to rank 1 at train.py:7{lacking}")


def test_a_rank_that_computes_for_ever_waits_for_nothing() -> None:
    emulated = Emulated(0)
    emulated.hear(posted(0, 1, all_reduce(), site="train.py:5"))
    emulated.pass_time(HANG_AFTER)
    assert emulated.diagnosis().summary == "rank 0 posted nothing and did not end for 10 s, last seen at train.py:5"
    assert emulated.diagnosis().ranks == [RankState(rank=0, state="running", callsite="train.py:5")]


def test_what_a_rank_completes_counts_as_life() -> None:
    emulated = Emulated(0)
    emulated.reduces(0)
    emulated.pass_time(HANG_AFTER - MS)
    emulated.hear(completed(0, 1))
    emulated.pass_time(HANG_AFTER - MS)
    assert emulated.world.diagnosis is None


def test_a_sandbox_rank_that_waits_for_one_that_has_ended_is_a_deadlock() -> None:
    emulated = Emulated(0, 1)
    emulated.reduces(0)
    emulated.hear(Finished(rank=1, code=0, cut=True), Exited(rank=1, code=0))
    assert emulated.diagnosis().kind == "deadlock"
    assert "which rank 1 has not posted; ranks 2-3 of it are virtual; rank 1 has ended" in (
        emulated.diagnosis().summary
    )
