"""Timing a program by events on its streams: what the device took between two steps, gaps in which it idled included.

Steps are those of the record: posts, waits and marks. Each has two events, where the program calls and where it goes
on; in between a stream stands still, or idles because the host is busy here and not in the program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from prism.gpu.cuda.driver import Driver

Told = Callable[[int, tuple[int, ...]], None]
"""Hears the number of a step and the ns of the segments before it and those after it."""


class Step(NamedTuple):
    """The events before and after a step; None where the program had not used the device yet."""

    before: Any
    after: Any


class Timing:
    """The steps of one program; `told` hears of segments in their order, some time after they are over."""

    def __init__(self, driver: Driver, told: Told) -> None:
        self._driver = driver
        self._told = told
        self._steps: deque[Step] = deque()
        self._called: Any = None  # the event where the program has called, of a step that is not made yet
        self._last: Step | None = None  # the newest one, whose end may still move
        self._end: Any = None  # the event after the last step that was told of
        self._number = 0  # of the first step that was not told of

    def call(self) -> None:
        """The program calls: what follows is no part of its time."""
        if self._called is None:
            self._called = self._event()

    def step(self) -> None:
        """A step happens, of the call before or now."""
        self.call()
        self._keep()
        self._last, self._called = Step(self._called, self._called), None

    def resume(self) -> None:
        """The program goes on from the last step."""
        if self._last is not None:
            self._last = self._last._replace(after=self._event())

    def tell(self) -> None:
        """Tell of the segments that are over by now."""
        self._tell(lambda step: all(event is None or event.query() for event in step))

    def conclude(self) -> None:
        """Wait for the rest, and tell of it."""
        self._keep()
        for event in (event for step in self._steps for event in step if event is not None):
            event.synchronize()
        self._tell(lambda step: True)

    def _event(self) -> Any:
        return self._driver.mark(self._driver.current(), timed=True) if self._driver.ready() else None

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
        return max(0, round(ms * 1e6))
