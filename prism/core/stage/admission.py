"""Admission: what the ranks' processes hold of the host's memory, and whether one more of them fits.

What a process has for itself counts, and once what all share with the fork server. A rank tells what it holds where it
waits. From the first of them follows what all will take, and what remains of one that has
spilled what it can. Each host has memory of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

SAMPLES = 8
"""Ranks that have to have told before something is concluded from them."""
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"))


class HostMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The bound on what ranks hold, in bytes, 0 for none, and whether they can spill.

    `pages_spill`: whether copies of device memory that are in host memory can go on to disk.
    """

    bound: int = 0
    spills: bool = False
    pages_spill: bool = False


UNBOUNDED = HostMemory()


class Admission:
    """The memory of one host's `size` ranks, of which so many compute at one time; all amounts are in bytes.

    `one_of`: how many hosts there are.
    """

    def __init__(self, size: int, slots: int, memory: HostMemory = UNBOUNDED, one_of: int = 1) -> None:
        self.memory = memory
        self.size = size
        self._slots = slots
        self.ranks = f"{size:,} ranks" + (" of one worker" if one_of > 1 else "")
        self._held: dict[int, int] = {}  # by the ranks that have a process, now
        self._total = 0
        self._untold: set[int] = set()  # ranks that have a process and have not told what they hold
        self._whole = _Mean()  # what a rank holds when it has spilled nothing, at most
        self._back = _Mean()  # what it holds once it has computed, though it may have spilled before
        self._rest = _Mean()  # what stays of one that has spilled
        self._spilled: set[int] = set()
        self._shared = 0  # what is there once, however many there are

    # -- what happens ------------------------------------------------------------------------------------------------

    def enter(self, rank: int) -> None:
        """The rank gets a slot."""
        self._spilled.discard(rank)
        if rank in self._back.known:
            self._set(rank, max(self._held.get(rank, 0), self._back.known[rank]))
        else:
            self._untold.add(rank)

    def weighed(self, rank: int, nbytes: int, shared: int = 0) -> None:
        """The rank holds so much, beside what all share, and is about to wait."""
        self._shared = max(self._shared, shared)
        self._back.note(rank, nbytes)
        self._whole.note(rank, max(nbytes, self._whole.known.get(rank, 0)))
        self._set(rank, nbytes)

    def spilled(self, rank: int, nbytes: int) -> None:
        """The rank has spilled what it could, and holds so much."""
        self._rest.note(rank, nbytes)
        self._spilled.add(rank)
        self._set(rank, nbytes)

    def gone(self, rank: int) -> None:
        """The rank's process has ended."""
        self._set(rank, 0)

    # -- what follows ------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """What all ranks hold now, as far as is known."""
        return self._shared + self._total + round(len(self._untold) * self._back.mean)

    def admits(self) -> bool:
        """Whether one more rank may have a process."""
        some = self._held or self._untold
        return not self.memory.bound or not some or self.held + self._back.mean <= self.memory.bound

    def presses(self) -> bool:
        """Whether a rank that waits has to spill, so that there is room for those that compute."""
        return self.memory.spills and bool(self.memory.bound) and self._expected > self.memory.bound

    def has_spilled(self, rank: int) -> bool:
        """Whether it has since it last computed."""
        return rank in self._spilled

    def impossible(self) -> str:
        """Why not all ranks can have a process even if all that wait have spilled; "" as long as they may."""
        least = self._shared + self.size * self._rest.mean + self._slots * self._back.mean
        if not self.memory.bound or len(self._rest.known) < min(SAMPLES, self.size) or least <= self.memory.bound:
            return ""
        return (
            f"devices.host_memory: {amount(self.memory.bound)} cannot hold {self.ranks}: of each, "
            f"{amount(self._rest.mean)} stay in memory with the rest in devices.spill; {amount(least)} are the least"
        )

    def refusal(self) -> str:
        """What is wrong where no rank can go on before another has a process, which is not admitted."""
        whole = max(self._shared + self.size * self._whole.mean, self.memory.bound + 1)
        begun = len(self._held) + len(self._untold)
        fix = "raise it" if self.memory.spills else "set devices.spill to a folder on a disk, raise it"
        return (
            f"devices.host_memory: {amount(self.memory.bound)} are taken by {begun:,} of {self.ranks}, "
            f"and none can go on before the others have begun; all will take about {amount(whole)}: {fix}, or run fewer"
        )

    @property
    def forecast(self) -> int:
        """What all ranks will hold if none spills; 0 until enough have told."""
        known = len(self._whole.known) >= min(SAMPLES, self.size)
        return round(self._shared + self.size * self._whole.mean) if known else 0

    @property
    def _expected(self) -> float:
        return self.held + self._slots * self._back.mean

    def _set(self, rank: int, nbytes: int) -> None:
        self._untold.discard(rank)
        self._total += nbytes - self._held.pop(rank, 0)
        if nbytes:
            self._held[rank] = nbytes


class Admissions:
    """The memory of all hosts, by their numbers; `hosts`: the host of each rank, left out: one has them all."""

    def __init__(self, ranks: Sequence[int], slots: int, memory: HostMemory, hosts: Mapping[int, int] | None) -> None:
        sizes = Counter({0: len(ranks)}) if hosts is None else Counter(hosts[rank] for rank in ranks)
        self.memory = memory
        self.hosts = {host: Admission(size, slots, memory, len(sizes)) for host, size in sorted(sizes.items())}
        self._host_of = hosts

    def host(self, rank: int) -> int:
        """The host of a rank."""
        return self._host_of[rank] if self._host_of else 0

    def of(self, rank: int) -> Admission:
        """The memory that a rank takes from."""
        return self.hosts[self.host(rank)]

    @property
    def held(self) -> int:
        """What all ranks hold now, on all hosts, as far as is known."""
        return sum(host.held for host in self.hosts.values())

    @property
    def fullest(self) -> Admission:
        """The host whose ranks will take most, as far as is known."""
        return max(self.hosts.values(), key=lambda host: host.forecast)


class _Mean:
    """The last amount of each rank, and their mean."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self._sum = 0

    def note(self, rank: int, nbytes: int) -> None:
        self._sum += nbytes - self.known.get(rank, 0)
        self.known[rank] = nbytes

    @property
    def mean(self) -> float:
        return self._sum / len(self.known) if self.known else 0.0


def amount(nbytes: float) -> str:
    """A size as people read it."""
    unit, name = next((u for u in UNITS if nbytes >= u[0]), UNITS[-1])
    return f"{nbytes / unit:.1f} {name}"
