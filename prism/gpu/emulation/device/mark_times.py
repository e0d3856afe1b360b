"""When a device comes to the marks of a program: the times of iterations, without waiting for any."""

from __future__ import annotations

import time
from typing import Any

from prism.gpu.cuda.driver import Driver


class MarkTimes:
    """An event on the program's stream at each mark; all of them count, or, without a device, none."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._events: list[Any] = []
        self._whole = True

    def mark(self) -> None:
        """The program is at a mark."""
        if not self._driver.ready():
            self._whole = False
        elif self._whole:
            self._events.append(self._driver.mark(self._driver.current(), timed=True))

    def walls(self) -> tuple[int, ...]:
        """When the device was there, in ns of the monotonic clock, near enough; their distances are exact.

        It waits for the last one. Nothing if a mark came before the program used the device.
        """
        if not self._whole or not self._events:
            return ()
        self._events[-1].synchronize()
        now = time.monotonic_ns()
        return tuple(now - round(event.elapsed_time(self._events[-1]) * 1e6) for event in self._events)
