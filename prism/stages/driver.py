"""Driving a world: the crew's events go in, its instructions go out, and time is told when nothing else happens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable

from prism.core.events import AnyEvent, Interrupted, Ticked, stamp
from prism.core.instructions import AnyInstruction
from prism.core.stage.world import World
from prism.crew import Crew

TICK_NS = 50_000_000
"""How often the world is told the time; half of its quantum."""
END_NS = 2_000_000_000
"""How long killed ranks have to be gone; those that are not are dismissed with the stage, and hold the next one up."""
LONGEST_TURN_NS = 1_000_000_000
"""By how much the time moves on at once at most: what is longer was not waited, the process was stopped."""
HOPS = 4
"""Turns of the loop from a socket to the world: before it is told the time, it hears what has come by then."""

Observer = Callable[[World], None]


async def drive(world: World, crew: Crew, interrupted: asyncio.Event, observe: Observer) -> None:
    """Drive the world to its end: all its ranks have ended, by themselves or killed.

    `observe` is called at every tick, and what it raises is ignored. Raises RunError if the crew is lost.
    """
    driving = _Driving(world, crew, interrupted)
    crew.order(world.start())
    listening, ticking = asyncio.ensure_future(driving.listen()), asyncio.ensure_future(driving.tick(observe))
    try:
        done, _ = await asyncio.wait((listening, ticking, driving.failed), return_when=asyncio.FIRST_COMPLETED)
        for end in done:
            end.result()
        driving.say()
    finally:
        for future in (listening, ticking, driving.failed):
            future.cancel()


class _Driving:
    """A world that is under way; `failed` gets what goes wrong while the crew is told something."""

    def __init__(self, world: World, crew: Crew, interrupted: asyncio.Event) -> None:
        self._world = world
        self._crew = crew
        self._interrupted = interrupted
        self._read = time.monotonic_ns()
        self._now = 0  # ns of the world
        self._ended: int | None = None
        self._said: list[AnyInstruction] = []  # what the crew is still to be told
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()

    async def listen(self) -> None:
        """Hear the crew to the end."""
        while self._goes_on():
            self._hear(await self._crew.events())

    async def tick(self, observe: Observer) -> None:
        """Tell the time to the end, or for as long as killed ranks have to be gone."""
        while self._goes_on():
            await asyncio.sleep(TICK_NS / 1e9)
            for _ in range(HOPS):
                await asyncio.sleep(0)
            if self._interrupted.is_set() and not self._world.over:
                self._hear((Interrupted(rank=-1),))
            self._hear((Ticked(rank=-1),))
            with contextlib.suppress(Exception):
                observe(self._world)
            if self._world.over:
                self._ended = self._ended or self._now
                if self._now - self._ended > END_NS:
                    return

    def say(self) -> None:
        """Tell the crew what the world has said."""
        said, self._said = self._said, []
        try:
            self._crew.order(said)
        except Exception as error:
            if not self.failed.done():
                self.failed.set_exception(error)

    def _goes_on(self) -> bool:
        return not self._world.over or self._world.alive

    def _hear(self, events: Iterable[AnyEvent]) -> None:
        """Let the world hear events; what it says to all that are heard in one turn of the loop goes out together."""
        read, before = time.monotonic_ns(), self._read
        self._read = read
        self._now += min(read - before, LONGEST_TURN_NS)
        if not self._said:
            self._loop.call_soon(self.say)
        for event in events:
            stamp(event, self._now)
            self._said += self._world.handle(event)
