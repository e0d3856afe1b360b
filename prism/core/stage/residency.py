"""Whose memory is on its device: where each rank's is, what moves, and what each device has left.

Nothing is known ahead, and without pressure nothing is said. Pressure is a rank that asks for memory which the device
does not have. What a rank holds is known once it has left; what the device has free is told with every move, so that an
estimate that was wrong does not stay so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from prism.core.events import PagedIn, PagedOut, Pressed
from prism.core.instructions import AnyInstruction

SPARE = 1536 << 20
"""Bytes of the device that no rank's memory is brought back into: contexts of ranks to come, and what kernels take."""


class Moves(msgspec.Struct, kw_only=True):
    """How often memory moved one way, how many bytes, and how long that took, in ns of those who moved it."""

    count: int = 0
    bytes: int = 0
    ns: int = 0

    def note(self, nbytes: int, ns: int) -> None:
        """One more."""
        self.count, self.bytes, self.ns = self.count + 1, self.bytes + nbytes, self.ns + ns


class Traffic(msgspec.Struct, kw_only=True):
    """What left a tier for the next one, and what came back."""

    out: Moves
    back: Moves


class ResidencyCount(msgspec.Struct, kw_only=True):
    """Moves by tier: between the device and host memory, and from there to disk and back to the device."""

    paged: Traffic
    spilled: Traffic


class Place(enum.Enum):
    """Where the memory of a rank is, or is on its way from."""

    DEVICE = "device"
    LEAVING = "leaving"
    HOST = "host"
    SPILLING = "spilling"
    DISK = "disk"
    COMING = "coming"


MOVING = (Place.LEAVING, Place.SPILLING, Place.COMING)


class Residency:
    """The places of all ranks; amounts are in bytes."""

    def __init__(self) -> None:
        self.asking: dict[int, bool] = {}  # ranks that wait for room, the first first; whether they cannot do without
        self.count = ResidencyCount(
            paged=Traffic(out=Moves(), back=Moves()), spilled=Traffic(out=Moves(), back=Moves())
        )
        self._places: dict[int, Place] = {}  # of ranks that are not on the device
        self._sizes: dict[int, int] = {}  # of ranks that have left before
        self._devices: dict[int, int] = {}  # of ranks that have told
        self._held: dict[int, list[AnyInstruction]] = {}
        self._free: dict[int, int] = {}  # by device

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to decide: nobody is away, and nobody asks."""
        return not self._places and not self.asking

    def place(self, rank: int) -> Place:
        """Where the rank's memory is."""
        return self._places.get(rank, Place.DEVICE)

    def here(self, rank: int) -> bool:
        """Whether the rank can be told anything."""
        return rank not in self._places

    def at(self, *places: Place) -> list[int]:
        """The ranks at these places, the earliest there first."""
        return [rank for rank, place in self._places.items() if place in places]

    def still(self, rank: int) -> bool:
        """Whether the rank is on the device and does not wait for room: if it is silent, that is its own doing."""
        return self.here(rank) and rank not in self.asking

    def beside(self, rank: int, other: int) -> bool:
        """Whether two ranks have one device, as far as is known."""
        devices = {self._devices[each] for each in (rank, other) if each in self._devices}
        return len(devices) < 2

    def told(self) -> ResidencyCount | None:
        """What has moved; None if nothing has."""
        return self.count if self.count.paged.out.count else None

    # -- what is kept back -------------------------------------------------------------------------------------------

    def hold(self, instruction: AnyInstruction) -> None:
        """Keep what the rank is told until it is here again."""
        self._held.setdefault(instruction.rank, []).append(instruction)

    def holds(self, rank: int) -> bool:
        """Whether anything is kept for the rank."""
        return rank in self._held

    def released(self, rank: int) -> list[AnyInstruction]:
        """What was kept for the rank, which is here now."""
        return self._held.pop(rank, [])

    # -- what happens ------------------------------------------------------------------------------------------------

    def pressed(self, event: Pressed) -> None:
        """A rank asks for room."""
        self.asking[event.rank] = event.free < event.nbytes
        self._look(event)

    def left(self, event: PagedOut) -> None:
        """A rank's memory is in host memory, or has gone on to disk; `error`: it is where it was."""
        before = self._places.pop(event.rank, Place.DEVICE)
        if event.error:
            if before is Place.SPILLING:
                self._places[event.rank] = Place.HOST
            return
        self._look(event)
        self._sizes[event.rank] = event.nbytes
        self._places[event.rank] = Place.DISK if event.disk else Place.HOST
        (self.count.spilled if event.disk else self.count.paged).out.note(event.nbytes, event.ns)

    def came(self, event: PagedIn) -> None:
        """A rank's memory is on the device; `error`: it is where it was."""
        self._places.pop(event.rank, None)
        if event.error:
            self._places[event.rank] = Place.DISK if event.disk else Place.HOST
            self._left_free(event.rank, event.free)
            return
        self._look(event)
        (self.count.spilled if event.disk else self.count.paged).back.note(event.nbytes, event.ns)

    def gone(self, rank: int) -> None:
        """The rank's process has ended, and its memory with it."""
        self._places.pop(rank, None)
        self._held.pop(rank, None)
        self.asking.pop(rank, None)

    def _look(self, event: Pressed | PagedOut | PagedIn) -> None:
        """Note the rank's device, and what that has left; a rank without memory has none yet."""
        if event.nbytes:
            self._devices[event.rank] = event.device
        self._left_free(event.rank, event.free)

    def _left_free(self, rank: int, free: int) -> None:
        if rank in self._devices:
            self._free[self._devices[rank]] = free

    # -- what is decided ---------------------------------------------------------------------------------------------

    def move(self, rank: int, to: Place) -> None:
        """The rank has been told to move its memory."""
        size = self._sizes.get(rank, 0)
        if rank in self._devices:
            change = size if to is Place.LEAVING else -size if to is Place.COMING else 0
            self._free[self._devices[rank]] += change
        self._places.pop(rank, None)
        self._places[rank] = to

    def makes_room(self, rank: int, victims: Iterable[int]) -> tuple[list[int], bool]:
        """Who has to leave so that the rank can come, of those that may in this order, and whether that is enough.

        One that has never left may hold anything, so it is enough until it is known better.
        """
        needed = self._sizes[rank] + SPARE - self._free_for(rank)
        chosen: list[int] = []
        for victim in victims:
            if needed <= 0:
                break
            chosen.append(victim)
            needed -= self._sizes.get(victim, needed)
        return chosen, needed <= 0

    def _free_for(self, rank: int) -> int:
        return self._free[self._devices[rank]] if rank in self._devices else 0
