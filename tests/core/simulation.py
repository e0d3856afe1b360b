"""Processes acted out against a world, in any order that a seed picks.

What a process says and what it is told travel in order, rank by rank; between ranks everything may overtake everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from prism.core.events import AnyEvent, Ticked, stamp
from prism.core.instructions import AnyInstruction
from prism.core.stage.capture import Capture
from prism.core.stage.kept import EVERYTHING, Kept
from prism.core.stage.states import HOLDS_SLOT
from prism.core.stage.world import World
from tests.core.actors import MS, SECOND
from tests.core.processes import Process, Program

TICK = 40 * MS
TICKING = 0.1
"""Ticks among all actions: often enough that ranks are looked at and stopped."""
IDLE_TICKS = 100
"""Ticks in a row in which nobody could do anything; far more than any verdict takes."""


class Simulation:
    """Programs, one a rank, acted out on `slots` slots; `events` is what the world heard, `told` what it said.

    With `deadly` any process may be killed at any moment.
    """

    def __init__(
        self, programs: Sequence[Program], slots: int, seed: int, deadly: bool = False, kept: Kept = EVERYTHING
    ) -> None:
        self.slots = slots
        self.exchange = Capture(range(len(programs)), kept)
        self.world = World(range(len(programs)), slots, self.exchange, hang_after=3600 * SECOND)
        self.processes = [Process(rank, program) for rank, program in enumerate(programs)]
        self.events: list[AnyEvent] = []
        self.told: list[AnyInstruction] = []
        self._deadly = deadly
        self._random = random.Random(seed)
        self._now = 0

    def run(self) -> None:
        """Until the run is over and all processes have ended, or nobody can do anything any more."""
        self._pass_on(self.world.start())
        idle = 0
        while (not self.world.over or self.world.alive) and idle < IDLE_TICKS:
            actions = self._actions()
            if not actions or self._random.random() < TICKING:
                idle = 0 if actions else idle + 1
                self._now += TICK
                self._hear(Ticked(rank=-1))
            else:
                idle = 0
                self._random.choice(actions)()
                computing = [p.rank for p in self.processes if p.computes and not p.asleep]
                assert len(computing) <= self.slots, f"{computing} compute on {self.slots} slots"

    def _actions(self) -> list[Callable[[], None]]:
        actions: list[Callable[[], None]] = []
        for process in self.processes:
            if self._deadly and process.lives and not process.done and self._random.random() < 0.02:
                actions.append(process.die)
            if process.outbox:
                actions.append(lambda p=process: self._hear(p.outbox.popleft()))
            if process.inbox:
                actions.append(process.obey)
            if process.work and process.lives and not process.stopped:
                actions.append(process.complete)
            if process.computes and not process.asleep:
                actions.append(process.go_on)
        return actions

    def _hear(self, event: AnyEvent) -> None:
        stamp(event, self._now)
        self.events.append(event)
        self._pass_on(self.world.handle(event))
        if self.world.over:
            return
        holding = sum(rank.state in HOLDS_SLOT for rank in self.world.ranks.values())
        assert holding + self.world.slots.free == self.slots, f"{holding} hold slots, {self.world.slots.free} are free"

    def _pass_on(self, instructions: Sequence[AnyInstruction]) -> None:
        self.told += instructions
        for instruction in instructions:
            self.processes[instruction.rank].inbox.append(instruction)
