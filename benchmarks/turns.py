"""Runs that get ready side by side, and are timed one after the other (benchmarks/programs/held.py).

What a run takes is mostly its start: imports, contexts, weights made on the CPU, NCCL. So as many as there is room for
start as one batch; when all of them are ready and the machine is at rest, each group of ranks has its turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.programs.held import GO, LEAVE, tell

LOOKS_S = 0.003
ROOM_GIB = 120.0
"""Of a GPU; the rest is for contexts and what NCCL has."""


class Run(NamedTuple):
    """One run; times in s, memory in GiB of each GPU."""

    name: str
    start: Callable[[Path], None]
    """Carries it out to its end, with the folder of its turns."""
    ranks: int
    turns: Sequence[Sequence[str]] = ()
    """Ranks that are timed together, in their order; none: it is not timed, and done before the others have turns."""
    takes: tuple[float, float] = (0.0, 0.0)
    after: tuple[str, ...] = ()


def batch(waiting: Sequence[Run], ended: set[str], ranks: int) -> list[Run]:
    """Of those that wait the first ones that there is room for, and whose predecessors have ended."""
    chosen: list[Run] = []
    for run in waiting:
        with_it = [*chosen, run]
        fits = all(sum(one.takes[gpu] for one in with_it) <= ROOM_GIB for gpu in (0, 1))
        few = sum(one.ranks for one in with_it) <= ranks
        if set(run.after) <= ended and (not chosen or (fits and few)):
            chosen.append(run)
    return chosen


class Batch:
    """The runs of one batch; `folder`: a new one, for their turns."""

    def __init__(self, runs: Sequence[Run], folder: Path) -> None:
        self._runs = runs
        self._folders = {run.name: folder / run.name for run in runs}
        for each in self._folders.values():
            each.mkdir(parents=True)
        self._threads = {run.name: threading.Thread(target=self._start, args=(run,), daemon=True) for run in runs}
        self.failed: dict[str, str] = {}

    def carry_out(self, start_s: float, turn_s: float, until: float, before: Callable[[], Any]) -> None:
        """All of them; `before` each turn. By `until` of the monotonic clock no further turn is given.

        Those that are timed have `start_s` to get ready once the others are done.
        """
        for thread in self._threads.values():
            thread.start()
        for run in self._runs:
            if not run.turns:
                self._await(run, "done", [], until)
        deadline = min(time.monotonic() + start_s, until)
        for run in self._runs:
            self._await(run, "ready", [rank for ranks in run.turns for rank in ranks], deadline)
        for run in self._runs:
            for ranks in run.turns:
                if time.monotonic() < until and self._there(run, "ready", ranks):
                    before()
                    for rank in ranks:
                        tell(self._folders[run.name], rank, GO)
                    self._await(run, "done", ranks, min(time.monotonic() + turn_s, until))
        for run in self._runs:
            self._let_go(run)
        deadline = time.monotonic() + turn_s
        for run in self._runs:
            self._threads[run.name].join(max(deadline - time.monotonic(), 0.0))
            if self._threads[run.name].is_alive():
                self.failed[run.name] = "did not end"

    def _start(self, run: Run) -> None:
        try:
            run.start(self._folders[run.name])
        except Exception as failed:  # of one run, whatever it is
            self.failed[run.name] = f"{type(failed).__name__}: {failed}"

    def _let_go(self, run: Run) -> None:
        (self._folders[run.name] / "leave").touch()  # first: who opens a line now looks for it afterwards
        for rank in (rank for ranks in run.turns for rank in ranks):
            tell(self._folders[run.name], rank, LEAVE)

    def _there(self, run: Run, what: str, ranks: Sequence[str]) -> bool:
        return all((self._folders[run.name] / f"{what}-{rank}").exists() for rank in ranks)

    def _await(self, run: Run, what: str, ranks: Sequence[str], deadline: float) -> None:
        """Until the ranks have said so, or until the end of a run that has no turns, fails, or takes too long."""
        while self._threads[run.name].is_alive() and time.monotonic() < deadline:
            if ranks and self._there(run, what, ranks):
                return
            time.sleep(LOOKS_S)
