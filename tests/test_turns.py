"""Which runs of benchmarks.turns start together, and that they are timed one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.programs.held import Turns
from benchmarks.turns import Batch, Run, batch

TOGETHER, APART = (("0", "1"),), (("0",), ("1",))


def of(name: str, ranks: int = 1, gpu: float = 0.0, after: tuple[str, ...] = ()) -> Run:
    return Run(name, lambda _: None, ranks, takes=(gpu, 0.0), after=after)


def names(runs: list[Run]) -> list[str]:
    return [run.name for run in runs]


def test_those_that_there_is_room_for_start_together() -> None:
    waiting = [of("large", gpu=100.0), of("too large beside it", gpu=30.0), of("small", gpu=10.0)]
    assert names(batch(waiting, set(), ranks=8)) == ["large", "small"]


def test_no_more_ranks_than_told() -> None:
    assert names(batch([of("one", 2), of("two", 2), of("three", 1)], set(), ranks=3)) == ["one", "three"]


def test_what_has_no_room_by_itself_starts_alone() -> None:
    assert names(batch([of("huge", gpu=500.0), of("small")], set(), ranks=8)) == ["huge"]


def test_a_run_waits_for_those_that_it_needs() -> None:
    waiting = [of("second", after=("first",)), of("other")]
    assert names(batch(waiting, set(), ranks=8)) == ["other"]
    assert names(batch(waiting, {"first"}, ranks=8)) == ["second", "other"]


def ranks_that_note(told: list[str], name: str) -> Callable[[Path], None]:
    """A run of two ranks that note when their turns begin and end."""

    def rank(folder: Path, number: str) -> None:
        turns = Turns(folder, number)
        turns.begin()
        told.append(f"{name}-{number} begins")
        time.sleep(0.02)
        told.append(f"{name}-{number} ends")
        turns.end()

    def start(folder: Path) -> None:
        threads = [threading.Thread(target=rank, args=(folder, number)) for number in ("0", "1")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return start


def test_turns_do_not_overlap_and_nothing_leaves_before_the_last(tmp_path: Path) -> None:
    told: list[str] = []
    runs = [
        Run("untimed", lambda _: told.append("untimed"), 1),
        Run("together", ranks_that_note(told, "together"), 2, TOGETHER),
        Run("apart", ranks_that_note(told, "apart"), 2, APART),
    ]
    one = Batch(runs, tmp_path / "turns")
    one.carry_out(20.0, 20.0, time.monotonic() + 40.0, lambda: told.append("busy"))
    assert one.failed == {}
    assert told[:2] == ["untimed", "busy"]
    assert sorted(told[2:6]) == ["together-0 begins", "together-0 ends", "together-1 begins", "together-1 ends"]
    assert told[6:] == [
        "busy", "apart-0 begins", "apart-0 ends", "busy", "apart-1 begins", "apart-1 ends"
    ]  # fmt: skip


def test_a_run_that_fails_keeps_no_other_from_its_turn(tmp_path: Path) -> None:
    told: list[str] = []

    def fails(folder: Path) -> None:
        raise ValueError("no GPU")

    runs = [Run("fails", fails, 2, TOGETHER), Run("apart", ranks_that_note(told, "apart"), 2, APART)]
    one = Batch(runs, tmp_path / "turns")
    one.carry_out(20.0, 20.0, time.monotonic() + 40.0, lambda: None)
    assert one.failed == {"fails": "ValueError: no GPU"}
    assert told[-1] == "apart-1 ends"


def test_who_was_not_ready_gets_no_turn_and_ends(tmp_path: Path) -> None:
    told: list[str] = []

    def late(folder: Path) -> None:
        while not (folder / "leave").exists():
            time.sleep(0.005)
        Turns(folder, "0").begin()
        told.append("timed")

    one = Batch([Run("late", late, 1, (("0",),))], tmp_path / "turns")
    one.carry_out(0.05, 20.0, time.monotonic() + 40.0, lambda: None)
    assert "no turn" in one.failed["late"]
    assert told == []
