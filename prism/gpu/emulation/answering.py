"""Who plays the virtual ranks in an operation whose posts are known: the engine on the host, or the one on a device."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from prism.core.graph import Int64
from prism.gpu.emulation.executor import Executors
from prism.gpu.emulation.prefetch import Pool
from prism.gpu.emulation.virtual import Need, VirtualRanks
from prism.net.payloads import Library


class Answering(Protocol):
    """What an assistant needs of who plays the virtual ranks."""

    @property
    def ops(self) -> Collection[int]:
        """The touching operations in which they play."""

    def begin(self, op: int, posts: Int64) -> None:
        """Play in an operation; `posts`: when each virtual member posts, ns of the monotonic clock."""

    def turn(self) -> bool:
        """Do what had to be put off, as far as it can be done now; returns whether something is left."""


class OnHost:
    """The engine of the host plays them, from payloads that are read ahead; `failed` hears what it raises."""

    def __init__(self, virtual: VirtualRanks, pool: Pool[Need], failed: Callable[[BaseException], None]) -> None:
        self.ops = frozenset(virtual.ops)
        self._virtual = virtual
        self._pool = pool
        self._executors = Executors(failed)

    @classmethod
    def of(
        cls, virtual: VirtualRanks, library: Library, capacity: int, counts: Int64,
        failed: Callable[[BaseException], None],
    ) -> OnHost:  # fmt: skip
        """With a pool for their payloads; `counts` is what it counts."""
        return cls(virtual, Pool(virtual.needs(), capacity, library, counts), failed)

    def begin(self, op: int, posts: Int64) -> None:
        """Play in an operation, beside others."""
        self._executors.submit(*self._virtual.job(op, posts, self._pool))

    def turn(self) -> bool:
        """Nothing is put off: jobs run in threads."""
        return False


class Both:
    """Operations on the host and on a device: each is played where it is."""

    def __init__(self, host: Answering, device: Answering) -> None:
        self.ops = frozenset({*host.ops, *device.ops})
        self._host = host
        self._device = device

    def begin(self, op: int, posts: Int64) -> None:
        """Play in an operation where it is."""
        (self._device if op in self._device.ops else self._host).begin(op, posts)

    def turn(self) -> bool:
        """Do what had to be put off."""
        return self._device.turn()
