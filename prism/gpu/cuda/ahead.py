"""Timing a program that is answered at once, now and then with its host far ahead of its device.

In such an iteration the stream is held before each segment until the host is as far ahead as it has needed for the
segment before, and more. So the device finds all of a segment's work when it begins, and what it takes is its own time.
A host that is found behind its device nevertheless has waited for it, as `.item()` does. After the iteration the device
catches up, or the next one would be launched too early as well.
"""

from __future__ import annotations

from prism.core.measuring.segments import WAITED
from prism.gpu.cuda.compensated import LONGEST, CompensatedTiming
from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.timing import Own, Step, Told

FIRST = 6
EVERY = 4
"""The first iteration with the host ahead, and how many later the next one is; no early one, for some are short."""

MORE = 1.25
AND = 50_000
"""By how much longer than the host has needed the stream is held, and by how many ns: hosts are not steady."""

WARM = 2
"""Iterations after which the device's clock is looked at: it is low before there is anything to do."""


class AheadTiming(CompensatedTiming):
    """A CompensatedTiming that tells, of some iterations, what the device takes by itself."""

    def __init__(self, driver: Driver, told: Told, own: Own = lambda: None) -> None:
        super().__init__(driver, told, own)
        self._iteration = 0
        self._needed: list[int] = []  # ns of the host for each segment of the last iteration in which it was free
        self._needs: list[int] = []  # the same of this iteration, up to now
        self._went_on = 0  # when the program went on from the last step
        self._held_until = 0  # when the stream is let go at the earliest
        self._needed_here: int | None = None  # of the segment that has just ended, or WAITED, where the host was ahead
        self._apart = 0  # steps in iterations in which it was not free

    @property
    def steps(self) -> int:
        """How many there were in iterations in which the host was free, once it was concluded."""
        return super().steps - self._apart

    def call(self) -> None:
        """The program calls: what follows is no part of its time."""
        if self._called is not None:
            return
        super().call()
        self._needs.append(self._arrived - self._went_on)
        if self._is_ahead and self._called is not None:
            self._needed_here = WAITED if self._has_caught_up() else self._before(len(self._needs) - 1)

    def step(self, held: int = 0) -> None:
        """A step happens, of the call before or now; in reality it holds the host for so many ns."""
        super().step(held)
        self._apart += self._is_ahead
        if self._last is not None:
            self._last = self._last._replace(host=self._needed_here)
        self._needed_here = None

    def resume(self) -> None:
        """The program goes on from the last step."""
        super().resume()
        self._went_on = self._driver.now()

    def mark(self) -> None:
        """An iteration ends here."""
        super().mark()
        if not self._is_ahead:
            self._needed = self._needs
        if (self._is_ahead or self._iteration < WARM) and self._usable():
            self._driver.drain()
            self._driver.look_at_clock()
            self._held = None  # there is nothing to make up for
        self._needs = []
        self._iteration += 1

    @property
    def _is_ahead(self) -> bool:
        return is_ahead(self._iteration)

    def _before(self, number: int) -> int:
        """What the host needed for the segment in the last iteration in which it was free, ns; 0 if there was none."""
        return self._needed[number] if number < len(self._needed) else 0

    def _has_caught_up(self) -> bool:
        """Whether the device has come to where the program went on from the last step, or further."""
        last = self._last
        went_on = (last.resumed or last.after) if last is not None else None
        return went_on is not None and bool(went_on.query())

    def _make_up_for(self, step: Step, held: int) -> None:
        if not self._is_ahead:
            super()._make_up_for(step, held)
        else:
            now = self._driver.now()
            until = now + min(LONGEST, round(MORE * self._before(len(self._needs))) + AND)
            held_until = max(self._held_until, now)
            self._driver.sleep(until - held_until)
            self._held_until = max(held_until, until)


def is_ahead(iteration: int) -> bool:
    """Whether the host is held ahead of its device in an iteration; the first is number 0."""
    return iteration >= FIRST and (iteration - FIRST) % EVERY == 0
