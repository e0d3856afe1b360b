"""One worker of a crew, from its first word on: what is known of it, and whether it still answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from prism.gpu.processes import proc
from prism.net.launchers import Started
from prism.net.messages import Hello
from prism.net.pulse import BEAT_S, BEATS_MISSED, Pulse

GOODBYE_S = 2.0
"""How long a worker has to end its ranks and itself; then it is killed."""


class Member:
    """A worker that is there; `lose` hears why it is not any more. `started`: as the launcher sees it, if it does."""

    def __init__(self, hello: Hello, started: Started | None, lose: Callable[[str, str], None]) -> None:
        self.name = hello.worker
        self.host = hello.host
        self.ferry = hello.ferry
        self.gateway = hello.gateway
        self._started = started
        self._lose = lose
        self._pulse = Pulse()
        self._tasks = [asyncio.create_task(self._feel())]

    def felt(self) -> None:
        """It has said something."""
        self._pulse.felt()

    def hung_up(self, why: str = "") -> None:
        """Its connection has ended; `why`, if that is known."""
        if why:
            started = self._started
            self._lose(self.name, f"what it says does not arrive as it was sent: {why}")
            if started is not None:
                started.kill()
            return
        self._tasks.append(asyncio.create_task(self._wonder()))

    def leave(self) -> None:
        """Nobody asks after it any more."""
        for task in self._tasks:
            task.cancel()

    async def _wonder(self) -> None:
        """If its process has ended too, how that ended says more, and is told elsewhere."""
        if self._started is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._started.ended(), GOODBYE_S)
                return
        where = (
            "its output above may say why" if self._started is not None else f"its output on {self.host} may say why"
        )
        self._lose(self.name, f"its connection has ended; {where}")

    async def _feel(self) -> None:
        await self._pulse.stopped()
        while self._starved():  # a thousand ranks that were all given something may come first
            self._pulse.felt()
            await self._pulse.stopped()
        silent = f"it has said nothing for {BEATS_MISSED * BEAT_S:.0f} s, and has been stopped or waits"
        started = self._started
        self._lose(self.name, silent)
        if started is not None:
            started.kill()  # its ranks go with it

    def _starved(self) -> bool:
        return self._started is not None and self._started.pid is not None and proc.is_starved(self._started.pid)
