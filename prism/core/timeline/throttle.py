"""Computing that is slower at times: a factor inside windows of virtual time, as with a device that gets too hot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Throttle:
    """Some ranks compute `factor` times as long from `since` to `until`, and again after every `period`; times in ns.

    Without `until` it never ends; without `period` it happens once. Raises ValueError on empty or overlapping windows.
    """

    ranks: tuple[int, ...]
    factor: float
    since: int = 0
    until: int | None = None
    period: int | None = None

    def __post_init__(self) -> None:
        width = None if self.until is None else self.until - self.since
        if width is not None and width <= 0:
            raise ValueError(f"a throttle that begins at {self.since} ns must end later than at {self.until} ns")
        if self.period is not None and (width is None or width >= self.period):
            raise ValueError(f"a throttle of {width} ns does not fit into a period of {self.period} ns")

    def finish(self, start: int, work: int) -> int:
        """When `work` ns of unthrottled computing end that begin at `start`."""
        at = start
        while work > 0:
            inside, change = self._window(at)
            end = at + (round(work * self.factor) if inside else work)
            if change is None or end <= change:
                return end
            work -= self._done(change - at) if inside else change - at
            at = change
            if self.period is not None and not inside:  # a window begins here: take whole periods at one stroke
                periods, work = divmod(work, self._work_of_a_period(self.period))
                at += periods * self.period
        return at

    def _done(self, throttled: int) -> int:
        """The work that is done in so many ns of a window."""
        return int(throttled / self.factor)

    def _work_of_a_period(self, period: int) -> int:
        assert self.until is not None
        width = self.until - self.since
        return period - width + self._done(width)

    def _window(self, at: int) -> tuple[bool, int | None]:
        """Whether `at` is in a window, and when that changes next."""
        if at < self.since:
            return False, self.since
        if self.until is None:
            return True, None
        if self.period is None:
            return (True, self.until) if at < self.until else (False, None)
        begins = at - (at - self.since) % self.period
        ends = begins + self.until - self.since
        return (True, ends) if at < ends else (False, begins + self.period)
