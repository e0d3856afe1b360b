"""Driving a world: the crew's events go in, its instructions go out, and time is told when nothing else happens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from prism.core.events import AnyEvent, Interrupted, Ticked, stamp
from prism.core.instructions import AnyInstruction
from prism.core.stage.world import World
from prism.crew import Crew

TICK_NS = 50_000_000
"""How often the world is told the time; half of its quantum."""
END_NS = 2_000_000_000
"""How long killed ranks have to be gone; those that are not are dismissed with the stage, and hold the next one up."""
LONGEST_TURN_NS = 1_000_000_000
"""By how much the time moves on in one turn at most: what is longer was not waited, the process was stopped."""

Observer = Callable[[World], None]


async def drive(world: World, crew: Crew, interrupted: asyncio.Event, observe: Observer) -> None:
    """Drive the world to its end: all its ranks have ended, by themselves or killed.

    `observe` is called at every tick, and what it raises is ignored. Raises RunError if the crew is lost.
    """
    read = time.monotonic_ns()
    now = 0  # ns of the world
    told = 0  # ns: when the world was last told the time
    ended: int | None = None
    crew.order(world.start())
    receiving: asyncio.Future[Any] = asyncio.ensure_future(crew.events())
    interrupting: asyncio.Future[Any] = asyncio.ensure_future(interrupted.wait())
    try:
        while not world.over or world.alive:
            awaited = [receiving] if interrupting.done() else [receiving, interrupting]
            await asyncio.wait(awaited, timeout=TICK_NS / 1e9, return_when=asyncio.FIRST_COMPLETED)
            read, before = time.monotonic_ns(), read
            now += min(read - before, LONGEST_TURN_NS)
            if receiving.done():
                _hear(world, crew, receiving.result(), now)
                receiving = asyncio.ensure_future(crew.events())
            if interrupting.done() and not world.over:
                _hear(world, crew, (Interrupted(rank=-1),), now)
            if now - told >= TICK_NS:
                told = now
                _hear(world, crew, (Ticked(rank=-1),), now)
                with contextlib.suppress(Exception):
                    observe(world)
            if world.over:
                ended = ended or now
                if now - ended > END_NS:
                    return
    finally:
        receiving.cancel()
        interrupting.cancel()


def _hear(world: World, crew: Crew, events: Iterable[AnyEvent], now: int) -> None:
    instructions: list[AnyInstruction] = []
    for event in events:
        stamp(event, now)
        instructions += world.handle(event)
    crew.order(instructions)
