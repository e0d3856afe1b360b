"""Processes that hold memory, acted out against a world that bounds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prism.core.events import Spilled, Weighed
from prism.core.instructions import AnyInstruction, Spill
from prism.core.stage.admission import HostMemory
from prism.core.stage.world import World
from tests.core.actors import MS, SECOND, Stage
from tests.core.processes import Process, Program, Wait
from tests.core.simulation import Simulation

WHOLE, REST = 100, 10
"""Bytes that a rank holds when all of it is in memory, and when it has spilled."""


class BoundedProcess(Process):
    """A rank that tells what it holds where it waits, and spills when told."""

    def obey(self) -> None:
        if isinstance(self.inbox[0], Spill):
            self.inbox.popleft()
            self.outbox.append(Spilled(rank=self.rank, nbytes=REST if self.halted else WHOLE))
        else:
            super().obey()

    def go_on(self) -> None:
        if self.at < len(self.program) and isinstance(self.program[self.at], Wait) and self.awaits:
            self.outbox.append(Weighed(rank=self.rank, nbytes=WHOLE))
        super().go_on()


class BoundedSimulation(Simulation):
    """A simulation on `slots` slots of each host, whose ranks together may hold so much."""

    def __init__(
        self,
        programs: Sequence[Program],
        slots: int,
        seed: int,
        memory: HostMemory,
        hosts: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(programs, slots, seed)
        size = range(len(programs))
        self.world = World(size, slots, self.exchange, hang_after=3600 * SECOND, memory=memory, hosts=hosts)
        self.slots = self.world.slots.count
        self.processes = [BoundedProcess(rank, program) for rank, program in enumerate(programs)]


class BoundedStage(Stage):
    """A stage in which all ranks of a host together may hold so much; `hosts`: that of each rank."""

    def __init__(
        self, size: int, slots: int, bound: int, spills: bool = True, hosts: Sequence[int] | None = None
    ) -> None:
        super().__init__(size, slots)
        memory, of = HostMemory(bound=bound, spills=spills), dict(enumerate(hosts)) if hosts else None
        self.world = World(range(size), slots, self.exchange, 60 * SECOND, memory=memory, hosts=of)
        self.world.start()

    def weighed(self, rank: int, nbytes: int = WHOLE) -> list[AnyInstruction]:
        """A rank tells what it holds."""
        return self.hear(Weighed(rank=rank, nbytes=nbytes))

    def spilled(self, rank: int, nbytes: int = REST, error: str = "") -> list[AnyInstruction]:
        """A rank has spilled."""
        return self.hear(Spilled(rank=rank, nbytes=nbytes, error=error))

    def wait_for_ever(self) -> None:
        """Time goes by, in steps that a driver makes too."""
        for _ in range(20):
            self.pass_time(50 * MS)
