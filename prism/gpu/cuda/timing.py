"""Timing a program by events on its streams: what the device took between two steps, gaps in which it idled included.

Steps are those of the record: posts, waits and marks. Each has two events, where the program calls and where it goes
on; what lies in between is no part of the program's time.

How far the host is ahead of the device decides how long the device takes for what follows, and PRISM's part of a step
takes longer than NCCL's, `held`, which is what a host is busy with there in reality. So the stream is held between the
two events until the host is as far ahead as it would be: by what it was ahead when it called, less `held`. If that is
less than nothing, the device would idle so long, and the segment before the step gets it. While the device is more than
a whole segment behind, it is left alone: how far does not matter then, and a device that rests runs faster afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from prism.gpu.cuda.driver import Driver

Told = Callable[[int, tuple[int, ...]], None]
"""Hears the number of a step and the ns of the segments before it and those after it."""

LONGEST = 20_000_000
"""ns: a step that takes longer is no usual one, as where something is measured or loaded; nobody is held for it."""

LAUNCH = 20_000
"""ns: with less to do a device counts as idle; it is what an event takes to get there, and some more."""


class Step(NamedTuple):
    """The events before and after a step; None where the program had not used the device yet."""

    before: Any
    after: Any
    idle: int  # ns for which the device idles in reality

    def over(self) -> bool:
        """Whether the device has come past it."""
        return all(event is None or event.query() for event in (self.before, self.after))


class Timing:
    """The steps of one program; `told` hears of segments in their order, some time after they are over."""

    def __init__(self, driver: Driver, told: Told) -> None:
        self._driver = driver
        self._told = told
        self._steps: deque[Step] = deque()
        self._called: Any = None  # the event where the program has called, of a step that is not made yet
        self._arrived = 0  # when it has
        self._held: int | None = None  # of the newest step, until the program goes on from it
        self._last: Step | None = None  # the newest one, whose end may still move
        self._end: Any = None  # the event after the last step that was told of
        self._number = 0  # of the first step that was not told of
        self.idle = 0  # steps at which the device had nothing left to do

    @property
    def steps(self) -> int:
        """How many there were, once it was concluded."""
        return self._number

    def call(self) -> None:
        """The program calls: what follows is no part of its time."""
        if self._called is None:
            self._called = self._event()
            self._arrived = self._driver.now()

    def step(self, held: int = 0) -> None:
        """A step happens, of the call before or now; in reality it holds the host for so many ns."""
        self.call()
        self._keep()
        self._last, self._called, self._held = Step(self._called, self._called, 0), None, held

    def resume(self) -> None:
        """The program goes on from the last step."""
        if self._last is None:
            return
        if self._held is not None and self._last.before is not None:
            self._make_up_for(self._last, self._held)
        self._held = None
        self._last = self._last._replace(after=self._event())

    def tell(self) -> None:
        """Tell of the segments that are over by now."""
        self._tell(Step.over)

    def conclude(self) -> None:
        """Wait for the rest, and tell of it."""
        self._keep()
        for step in self._steps:
            for event in (step.before, step.after):
                if event is not None:
                    event.synchronize()
        self._tell(lambda step: True)

    def _event(self) -> Any:
        """An event on the program's stream; a graph that is being captured gets none."""
        usable = self._driver.ready() and not self._driver.capturing()
        return self._driver.mark(self._driver.current(), timed=True) if usable else None

    def _make_up_for(self, step: Step, held: int) -> None:
        """Hold the stream, or note that it idles, so that the host is as far ahead as it would be."""
        took = self._driver.now() - self._arrived
        if took > LONGEST:
            return
        ahead = self._ahead(step, took)
        if ahead is None:
            if not self._is_far():
                self._driver.sleep(took - held)
            return
        self.idle += ahead < LAUNCH
        self._driver.sleep(ahead - held)
        self._last = step._replace(idle=max(0, held - ahead))

    def _is_far(self) -> bool:
        """Whether the device has not even come to the end of the step before the last one."""
        return bool(self._steps) and not self._steps[-1].over()

    def _ahead(self, step: Step, took: int) -> int | None:
        """By how many ns the host was ahead when the program called; None where it still is, after all that it took."""
        if not step.before.query():
            return None
        now = self._driver.mark(self._driver.current(), timed=True)
        now.synchronize()
        idled: float = step.before.elapsed_time(now)
        return max(0, took - round(idled * 1e6))

    def _keep(self) -> None:
        if self._last is not None:
            self._steps.append(self._last)
            self._last = None

    def _tell(self, over: Callable[[Step], bool]) -> None:
        found: list[int] = []
        while self._steps and over(self._steps[0]):
            step = self._steps.popleft()
            found.append(self._between(step))
            self._end = step.after
        if found:
            self._told(self._number, tuple(found))
            self._number += len(found)

    def _between(self, step: Step) -> int:
        """The ns before a step; -1 where the device had no part in it, and the host's clock counts."""
        if self._end is None or step.before is None:
            return -1
        ms: float = self._end.elapsed_time(step.before)
        return max(0, round(ms * 1e6)) + step.idle
