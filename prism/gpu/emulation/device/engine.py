"""The engine of a sandbox rank's device: what it will be asked to do, and when it begins.

It begins when torch makes the first communicator that has virtual members: until then nobody knows which device the
program uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prism.core.emulation.touching import Touching
from prism.gpu.emulation.device import abi
from prism.gpu.emulation.device.planned import Plan
from prism.gpu.emulation.engine_calls import named
from prism.net.schedule import BOARD, FIFOS, GroupPart, Schedule, releases_of

MODES = {"exact": 0, "left": 1, "zeros": 1, "prefolded": 2, "replicas": 3}
"""The engine's numbers of contributions; without payloads those that the left rank carries are zeros."""

UNPLANNED = "other"
"""How the engine's names of groups begin in which the record has no operation."""


@dataclass(frozen=True)
class Group:
    """A group as the engine knows it; `rank`: this process's in it."""

    name: str
    rank: int
    part: GroupPart

    @property
    def virtual(self) -> bool:
        """Whether some of its members are."""
        return len(self.part.sandbox) < self.part.size


class Engine:
    """The groups of one rank, and the device's part in them; `device` says which one the program uses now.

    `arc_device`: the one that virtual members use; -1: the same. `sharing`: how many sandbox ranks have one device.
    """

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        directory: Path,
        payloads: Path,
        pool: int,
        device: Callable[[], int],
        arc_device: int = -1,
        sharing: int = 1,
    ) -> None:
        self.plan = Plan(schedule, rank, payloads)
        self._schedule = schedule
        self._rank = rank
        self._directory = directory
        self._pool = pool
        self._device = device
        self._arc_device = arc_device
        self._sharing = sharing
        self._library: abi.Device | None = None
        self._told: set[str] = set()
        self._lock = threading.RLock()
        self._rows = {_key(part): row for row, part in schedule.plain.groups.items() if rank in part.ranks}

    def group(self, name: str, ranks: Sequence[int]) -> Group:
        """A group that the program makes, of these global ranks."""
        sandbox = [member for member, rank in enumerate(ranks) if rank in self._touching.sandbox]
        part = GroupPart(len(ranks), sandbox, name=name, ranks=[ranks[member] for member in sandbox], on_device=True)
        row = self._rows.get(_key(part))
        return self._known(f"{UNPLANNED}-{name}" if row is None else named(row), part)

    def identify(self, unique: bytes, group: Group, members: Sequence[int]) -> None:
        """Say what communicator an id means; the first one begins the engine."""
        with self._lock:
            library = self._begun()
            self._tell(library, group)
            library.identify(unique, group.name, members)

    def state(self) -> abi.Report | None:
        """What went wrong; None for nothing."""
        report = self._library.state() if self._library is not None else None
        return report if report is not None and report.kind != abi.FINE else None

    @property
    def _touching(self) -> Touching:
        return self._schedule.touching

    def _begun(self) -> abi.Device:
        if self._library is not None:
            return self._library
        library = abi.load()
        library.begin(self._setup())
        for row in self._rows.values():
            group = self._known(named(row), self._schedule.plain.groups[row])
            if group.part.on_device and group.virtual:
                self._tell(library, group)
        for entry, call in enumerate(self.plan.calls):
            library.planned(call, entry)
        library.start()
        self._library = library
        return library

    def _setup(self) -> abi.Setup:
        directory, touching = self._directory, self._schedule.touching
        return abi.Setup(
            directory=str(directory / FIFOS).encode(),
            board=str(directory / BOARD).encode(),
            releases=str(directory / releases_of(self._rank)).encode(),
            place=touching.sandbox.index(self._rank),
            sandbox_ranks=len(touching.sandbox),
            ops=len(touching.op),
            device=self._device(),
            arc_device=self._arc_device,
            pool_bytes=self._pool,
            sharing=self._sharing,
            mode=MODES[self._schedule.plain.contribution],
        )

    def _known(self, name: str, part: GroupPart) -> Group:
        return Group(name, part.sandbox[part.ranks.index(self._rank)], part)

    def _tell(self, library: abi.Device, group: Group) -> None:
        if group.name not in self._told:
            self._told.add(group.name)
            reserved = group.part.reserved(self._rank)
            library.group(group.name, group.part.size, group.rank, group.part.sandbox, reserved)


def _key(part: GroupPart) -> tuple[str, int, tuple[int, ...], tuple[int, ...]]:
    """By what a group that the program makes is known."""
    return part.name, part.size, tuple(part.sandbox), tuple(part.ranks)
