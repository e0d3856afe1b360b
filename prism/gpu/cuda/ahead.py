"""Timing a program that is answered at once, now and then with its host far ahead of its device.

In such an iteration the stream is held before each segment until the host is as far ahead as it has needed for the
segment before, and more. So the device finds all of a segment's work when it begins, and what it takes is its own time.
A host that is behind its device nevertheless has waited for it, as `.item()` does; from then on it is known where a
program waits, and where it does not. After the iteration the device catches up, or the next one would be launched too
early as well. So whatever lead the host had before that one is lost, and it does not count.
"""

from __future__ import annotations

from collections import deque

from prism.core.measuring.segments import AFTER, WAITED
from prism.gpu.cuda.compensated import CompensatedTiming
from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.timing import Own, Step, Told

FIRST = 6
EVERY = 5
"""The first iteration with the host ahead, and how many later the next one is; no early one, for some are short, and an
odd number, for iterations of two or four kinds in turns."""

MORE = 2.0
AND = 50_000
"""By how much longer than the host has needed the stream is held, and by how many ns: hosts are not steady."""

LONGEST = 1_000_000_000
"""ns for which it is held at most before a segment."""

REMEMBERED = 4
"""Iterations whose hosts count for that: they may be of several kinds."""


class AheadTiming(CompensatedTiming):
    """A CompensatedTiming that tells, of some iterations, what the device takes by itself."""

    def __init__(self, driver: Driver, told: Told, own: Own = lambda: None) -> None:
        super().__init__(driver, told, own)
        self._iteration = 0
        self._took: list[int] = []  # ns of the host for each segment of this iteration
        self._earlier: deque[list[int]] = deque(maxlen=REMEMBERED)  # the same of iterations in which it was free
        self._went_on = 0  # when the program went on from the last step
        self._held_until = 0  # when the stream is let go at the earliest
        self._host: int | None = None  # what is told of the host for the segment that has just ended
        self._apart = 0  # steps in iterations that do not count
        self._waits: dict[int, bool] = {}  # by place in an iteration: whether the host waited there, if known

    @property
    def steps(self) -> int:
        """How many there were in iterations that count, once it was concluded."""
        return super().steps - self._apart

    def call(self) -> None:
        """The program calls: what follows is no part of its time."""
        if self._called is not None:
            return
        super().call()
        place = len(self._took)
        self._took.append(self._arrived - self._went_on)
        if is_ahead(self._iteration) and self._called is not None:
            self._host = WAITED if self._has_caught_up() else self._took[-1]
            self._waits[place] = self._waits.get(place, False) or self._host == WAITED
        elif is_ahead(self._iteration - 1):
            self._host = AFTER

    def step(self, held: int = 0) -> None:
        """A step happens, of the call before or now; in reality it holds the host for so many ns."""
        super().step(held)
        self._apart += self._host is not None
        if self._last is not None:
            self._last = self._last._replace(host=self._host)
        self._host = None

    def resume(self) -> None:
        """The program goes on from the last step."""
        super().resume()
        self._went_on = self._driver.now()

    def mark(self) -> None:
        """An iteration ends here."""
        super().mark()
        ahead = is_ahead(self._iteration)
        if not ahead and self._iteration:  # in the first one things are loaded
            self._earlier.append(self._took)
        if (ahead or self._iteration == 0) and self._usable():
            self._driver.drain()
            self._driver.look_at_clock()  # it was low before there was anything to do
            self._held, self._lost = None, 0  # there is nothing to make up for
        self._took = []
        self._iteration += 1

    def _has_waited(self) -> bool:
        """Whether it has, in an iteration in which it was held ahead; or that is not known yet."""
        return self._waits.get(len(self._took) - 1, True)

    def _has_caught_up(self) -> bool:
        """Whether the device has come to where the program went on from the last step, or further."""
        last = self._last
        went_on = (last.resumed or last.after) if last is not None else None
        return went_on is not None and bool(went_on.query())

    def _make_up_for(self, step: Step, held: int) -> None:
        if not is_ahead(self._iteration):
            super()._make_up_for(step, held)
            return
        place, now = len(self._took), self._driver.now()
        most = max((took[place] for took in self._earlier if place < len(took)), default=0)
        until = now + min(LONGEST, round(MORE * most) + AND)
        held_until = max(self._held_until, now)
        self._driver.sleep(until - held_until)
        self._held_until = max(held_until, until)


def is_ahead(iteration: int) -> bool:
    """Whether the host is held ahead of its device in an iteration; the first is number 0."""
    return iteration >= FIRST and (iteration - FIRST) % EVERY == 0
