"""What a test that failed shows: the reason first, each thing once, however many ranks there are."""

from __future__ import annotations

from prism.core.diagnosis import Diagnosis, RankState
from prism.testing import RanksFailed
from prism.testing.failure import MOST_SHOWN


def raised(rank: int, message: str) -> RankState:
    text = f'Traceback (most recent call last):\n  File "t.py", line 3, in program\nAssertionError: {message}\n'
    return RankState(
        rank=rank, state=f"raised AssertionError: {message} at t.py:3", callsite="t.py:3", traceback=text
    )  # fmt: skip


def waiting(rank: int) -> RankState:
    return RankState(rank=rank, state="waiting", op="barrier", group="default", seq=1, callsite="t.py:4")


def test_the_reason_comes_first_and_ranks_in_one_place_share_a_line() -> None:
    found = Diagnosis(
        kind="deadlock", summary="ranks 0-62 wait", ranks=[*map(waiting, range(63)), RankState(rank=63, state="ended")]
    )
    assert str(RanksFailed(found, {})).splitlines() == [
        "deadlock: ranks 0-62 wait",
        "  ranks 0-62: waiting in barrier on default, number 1, at t.py:4",
        "  rank 63: ended",
    ]


def test_a_traceback_is_shown_once_though_addresses_differ() -> None:
    states = [raised(rank, f"1 == <Tensor at 0x7f{rank}>") for rank in range(8)]
    text = str(RanksFailed(Diagnosis(kind="rank_failed", summary="ranks raised", ranks=states), {}))
    assert text.count("Traceback") == 1
    assert "\nranks 0-7:\nTraceback" in text


def test_of_many_different_ones_the_first_are_shown() -> None:
    states = [raised(rank, f"rank {rank} is wrong") for rank in range(MOST_SHOWN + 3)]
    logs = {rank: f"I am {rank}\n{states[rank].traceback}" for rank in range(MOST_SHOWN + 3)}
    text = str(RanksFailed(Diagnosis(kind="rank_failed", summary="ranks raised", ranks=states), logs))
    assert text.count("Traceback") == MOST_SHOWN
    assert "and 3 more tracebacks, in .diagnosis.ranks" in text
    assert text.count("I am") == MOST_SHOWN
    assert text.endswith("and output of 3 more ranks, in .logs")


def test_the_end_of_what_was_printed_is_shown_of_those_that_raised_first() -> None:
    found = Diagnosis(kind="rank_failed", summary="rank 9 raised", ranks=[waiting(0), raised(9, "no")])
    text = str(RanksFailed(found, {0: "zero\n", 9: "line\n" * 100}))
    assert text.index("output of rank 9:") < text.index("output of rank 0:")
    assert text.count("  line") < 100


def test_only_the_first_line_of_a_message_is_the_reason() -> None:
    found = Diagnosis(kind="rank_failed", summary="rank 0 raised AssertionError: sum\nassert 2 == 3", ranks=[])
    assert str(RanksFailed(found, {})) == "rank_failed: rank 0 raised AssertionError: sum"
