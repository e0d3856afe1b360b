"""Watching the clocks of a GPU while a rank is timed: a GPU that slows itself down is not the one to predict with."""

from __future__ import annotations

import threading
from collections.abc import Callable

from prism.core.events import Clocked, ClockState
from prism.gpu.cuda.nvml import Clocks, clocks

EVERY_S = 0.1


class ClockWatch:
    """A thread that looks now and then, from its creation until it is concluded."""

    def __init__(self, gpu: int, look: Callable[[int], Clocks | None] = clocks) -> None:
        self._gpu = gpu
        self._look = look
        self._over = threading.Event()
        self._throttled: dict[str, None] = {}
        self._before = look(gpu)
        self._thread = threading.Thread(target=self._watch, name="prism-clocks", daemon=True)
        self._thread.start()

    def conclude(self, rank: int) -> Clocked | None:
        """What was seen; None if the GPU tells nothing."""
        self._over.set()
        self._thread.join()
        after = self._look(self._gpu)
        if self._before is None or after is None:
            return None
        for reason in (*self._before.throttled, *after.throttled):
            self._throttled[reason] = None
        return Clocked(
            rank=rank, before=_state(self._before), after=_state(after), throttled=tuple(sorted(self._throttled))
        )

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            seen = self._look(self._gpu)
            for reason in seen.throttled if seen is not None else ():
                self._throttled[reason] = None


def _state(seen: Clocks) -> ClockState:
    return ClockState(seen.sm_mhz, round(seen.power_w), seen.temperature_c)
