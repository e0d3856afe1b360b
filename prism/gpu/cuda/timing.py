"""Timing a program by events on its streams: what the device took between two steps, gaps in which it idled included.

Steps are those of the record: posts, waits and marks. Each has two events, where the program calls and where it goes
on; what lies in between is no part of the program's time. How far the host is ahead of its device there is left as it
is; a program that is answered at once needs prism.gpu.cuda.compensated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from prism.gpu.cuda.driver import Driver

Told = Callable[[int, tuple[int, ...], tuple[tuple[int, int], ...]], None]
"""Hears the number of a step, the ns of the segments before it and those after it, and what the host needs for some."""

Own = Callable[[], Any]
"""The stream in which the program computes, where its current one is another; else None."""


class Step(NamedTuple):
    """The events before and after a step; None where the program had not used the device yet.

    `computed` and `resumed`: those in the stream in which it computes, where it has called in another.
    """

    before: Any
    after: Any
    idle: int = 0  # ns for which the device idles in reality, and not here
    computed: Any = None
    resumed: Any = None
    host: int | None = None  # ns that the host needs for the segment before, WAITED or AFTER, where that is known

    @property
    def events(self) -> tuple[Any, ...]:
        """All that there are."""
        return tuple(event for event in (self.before, self.after, self.computed, self.resumed) if event is not None)

    def over(self) -> bool:
        """Whether the device has come past it."""
        return all(event.query() for event in self.events)


class Timing:
    """The steps of one program; `told` hears of segments in their order, some time after they are over."""

    def __init__(self, driver: Driver, told: Told, own: Own = lambda: None) -> None:
        self._driver = driver
        self._told = told
        self._own = own
        self._steps: deque[Step] = deque()
        self._called: Any = None  # the event where the program has called, of a step that is not made yet
        self._computed: Any = None  # the same in the stream in which it computes, where that is another
        self._last: Step | None = None  # the newest one, whose end may still move
        self._end: Any = None  # the latest event after a step that was told of
        self._owed = 0  # ns that steps in other streams took of the one in which it computes; segments lose them
        self._number = 0  # of the first step that was not told of

    @property
    def steps(self) -> int:
        """How many there were, once it was concluded."""
        return self._number

    def call(self) -> None:
        """The program calls: what follows is no part of its time."""
        if self._called is None:
            own = self._own()
            self._called = self._event()
            self._computed = self._event(own) if own is not None else None

    def step(self) -> None:
        """A step happens, of the call before or now."""
        self.call()
        self._keep()
        self._last, self._called = Step(self._called, self._called, computed=self._computed), None

    def follow(self) -> None:
        """Another step happens, before the program goes on from the last one: there is nothing between the two."""
        if self._last is None:
            self.step()
            return
        self._steps.append(self._last)
        self._last, self._called = Step(self._last.after, self._last.after), None

    def resume(self) -> None:
        """The program goes on from the last step; a stream beside that in which it computes holds it by nothing."""
        if self._last is None:
            return
        own = self._own()
        if own is None:
            self._last = self._last._replace(after=self._event())
        elif self._last.computed is not None:
            self._last = self._last._replace(resumed=self._event(own))

    def mark(self) -> None:
        """An iteration ends here, which is a step."""
        self.step()
        self.tell()

    def tell(self) -> None:
        """Tell of the segments that are over by now."""
        self._tell(Step.over)

    def conclude(self) -> None:
        """Wait for the rest, and tell of it."""
        self._keep()
        for step in self._steps:
            for event in step.events:
                event.synchronize()
        self._tell(lambda step: True)

    def _event(self, stream: Any = None) -> Any:
        """An event on a stream, or on the current one; a graph that is being captured gets none."""
        return self._driver.mark(stream or self._driver.current(), timed=True) if self._usable() else None

    def _usable(self) -> bool:
        """Whether the program has used the device, and captures no graph there now."""
        return self._driver.ready() and not self._driver.capturing()

    def _keep(self) -> None:
        if self._last is not None:
            self._steps.append(self._last)
            self._last = None

    def _tell(self, over: Callable[[Step], bool]) -> None:
        found: list[int] = []
        hosts: list[tuple[int, int]] = []
        while self._steps and over(self._steps[0]):
            step = self._steps.popleft()
            if step.host is not None:
                hosts.append((self._number + len(found), step.host))
            found.append(self._between(step))
            self._end = self._later(step.after)
            if step.computed is not None and step.resumed is not None:
                self._owed += _ns(step.computed, step.resumed)
        if found:
            self._told(self._number, tuple(found), tuple(hosts))
            self._number += len(found)

    def _later(self, after: Any) -> Any:
        """Where the device was last when it went on from a step: in another stream that may lie behind it."""
        if self._end is None or after is None:
            return after
        ms: float = self._end.elapsed_time(after)
        return after if ms >= 0 else self._end

    def _between(self, step: Step) -> int:
        """The ns before a step; -1 where the device had no part in it, and the host's clock counts."""
        if self._end is None or step.before is None:
            return -1
        passed = _ns(self._end, step.before)
        lost, self._owed = min(passed, self._owed), max(0, self._owed - passed)
        return passed - lost + step.idle


def _ns(begin: Any, end: Any) -> int:
    """From one event to another; 0 if that comes before."""
    ms: float = begin.elapsed_time(end)
    return max(0, round(ms * 1e6))
