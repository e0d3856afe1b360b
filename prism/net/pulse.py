"""The pulse of a worker: it says that it is alive once a second, and who has heard nothing for a while has lost it.

Turns of the listener's own loop are counted, not the time: a coordinator that was stopped itself, or a clock that
jumped, finds what was said meanwhile before it finds that nothing was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

BEAT_S = 1.0
"""How often a worker says that it is alive."""
BEATS_MISSED = 8
"""After so many in a row it counts as lost: its loop, which does little, has not turned in all that time."""


class Pulse:
    """Feels for the beats of one worker."""

    def __init__(self, beat_s: float = BEAT_S) -> None:
        self._beat_s = beat_s
        self._missed = 0

    def felt(self) -> None:
        """The worker has said something."""
        self._missed = 0

    async def stopped(self) -> None:
        """Return once the worker has been silent for BEATS_MISSED beats."""
        while self._missed < BEATS_MISSED:
            await asyncio.sleep(self._beat_s)
            self._missed += 1


async def beat(say: Callable[[], None], beat_s: float = BEAT_S) -> None:
    """Say it every beat, until this is cancelled."""
    while True:
        say()
        await asyncio.sleep(beat_s)
