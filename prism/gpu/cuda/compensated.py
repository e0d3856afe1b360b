"""Timing a program that is answered at once, and is to run as if NCCL had been called.

How far the host is ahead of the device decides how long the device takes for what follows, and PRISM's part of a step
takes longer than NCCL's, `held`, which is what a host is busy with there in reality. So the stream is held between the
two events of a step until the host is as far ahead as it would be: by what it was ahead when it called, less `held`. If
that is less than nothing, the device would idle so long, and the segment before the step gets it. While the device is
more than a whole segment behind, it is left alone: how far does not matter then, and a device that rests runs faster
afterwards. What the host loses meanwhile it gets back as soon as it does matter, if it is known not to have waited for
its device since: who has waited has no lead, whenever it came there.
"""

from __future__ import annotations

from typing import Any

from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.timing import Own, Step, Timing, Told

LONGEST = 20_000_000
"""ns: a step that takes longer is no usual one, as where something is measured or loaded; nobody is held for it."""

LAUNCH = 20_000
"""ns: with less to do a device counts as idle; it is what an event takes to get there, and some more."""


class CompensatedTiming(Timing):
    """A Timing that gives back what the host loses of its lead to PRISM, and takes what it would lose to NCCL."""

    def __init__(self, driver: Driver, told: Told, own: Own = lambda: None) -> None:
        super().__init__(driver, told, own)
        self._arrived = 0  # when the program has called
        self._held: int | None = None  # of the newest step, until the program goes on from it
        self._lost = 0  # ns of its lead that the host has lost to PRISM and is owed
        self.idle = 0  # steps at which the device had nothing left to do

    def call(self) -> None:
        """The program calls: what follows is no part of its time."""
        if self._called is None:
            super().call()
            self._arrived = self._driver.now()

    def step(self, held: int = 0) -> None:
        """A step happens, of the call before or now; in reality it holds the host for so many ns."""
        super().step()
        self._held = held

    def resume(self) -> None:
        """The program goes on from the last step."""
        if self._last is not None and self._last.before is not None and self._held is not None:
            with self._driver.on(self._own() or self._driver.current()):
                self._make_up_for(self._last, self._held)
        self._held = None
        super().resume()

    def _has_waited(self) -> bool:
        """Whether the host may have waited for its device since it called last."""
        return True

    def _make_up_for(self, step: Step, held: int) -> None:
        """Hold the stream, or note that it idles, so that the host is as far ahead as it would be."""
        took = self._driver.now() - self._arrived
        if self._has_waited() or took > LONGEST:
            self._lost = 0
        if took > LONGEST:
            return
        ahead = self._ahead(step.computed or step.before, took)
        if ahead is None and self._is_far():
            self._lost += took - held
            return
        owed, self._lost = max(0, self._lost), 0
        if ahead is None:
            self._driver.sleep(owed + took - held)
            return
        self.idle += owed + ahead < LAUNCH
        self._driver.sleep(owed + ahead - held)
        self._last = step._replace(idle=max(0, held - ahead - owed))

    def _is_far(self) -> bool:
        """Whether the device has not even come to the end of the step before the last one."""
        return bool(self._steps) and not self._steps[-1].over()

    def _ahead(self, called: Any, took: int) -> int | None:
        """By how many ns the host was ahead when the program called; None where it still is, after all that it took."""
        if not called.query():
            return None
        now = self._driver.mark(self._driver.current(), timed=True)
        self._driver.spin(now)
        idled: float = called.elapsed_time(now)
        return max(0, took - round(idled * 1e6))
