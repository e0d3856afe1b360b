"""A stand-in for torch's caching allocator of CUDA memory, with the figures that torch.cuda.memory_stats tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

BLOCK, SEGMENT = 512, 2 << 20
FIGURES = (
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
    "inactive_split_bytes", "requested_bytes",
)  # fmt: skip
POOLS = ("all", "small_pool", "large_pool")
COUNTERS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")


class FakeAllocator:
    """Blocks of whole 512 bytes, which are taken from segments that stay; by device."""

    def __init__(self, devices: int = 2) -> None:
        self.used: set[int] = set()  # devices on which there is a context
        self.on_reset: Callable[[], None] = lambda: None  # called when peaks have begun anew
        self._stats = [_stats() for _ in range(devices)]
        self._blocks: list[list[int]] = [[] for _ in range(devices)]  # requested bytes of each

    def take(self, device: int, nbytes: int) -> None:
        """Allocate a block."""
        self.used.add(device)
        self._blocks[device].append(nbytes)
        size = -(-nbytes // BLOCK) * BLOCK
        stats = self._stats[device]
        missing = stats["allocated_bytes"]["all"]["current"] + size - stats["reserved_bytes"]["all"]["current"]
        if missing > 0:
            self._count(device, nbytes, "reserved_bytes", -(-missing // SEGMENT) * SEGMENT)
        self._count_block(device, nbytes, 1)

    def take_privately(self, device: int, nbytes: int) -> None:
        """Reserve segments for a pool of the program's own, of which torch 2.13 and later tell."""
        self.used.add(device)
        pools = self._stats[device]["reserved_bytes_by_private_pools"]
        figure = pools.setdefault("0_1", {pool: _stat() for pool in POOLS})
        amount = -(-nbytes // SEGMENT) * SEGMENT
        for of in (figure, self._stats[device]["reserved_bytes"]):
            for pool in ("all", "large_pool"):
                _move(of[pool], amount)

    def release_privately(self, device: int) -> None:
        """Give the segments of that pool back; what it had stays known."""
        figure = self._stats[device]["reserved_bytes_by_private_pools"].get("0_1")
        for part in figure.values() if figure is not None else ():
            _move(part, -part["current"])

    def give(self, device: int) -> None:
        """Free the oldest block, if there is one."""
        if self._blocks[device]:
            self._count_block(device, self._blocks[device].pop(0), -1)

    def release(self, device: int) -> None:
        """Give segments back, as if all were free."""
        self._count(device, SEGMENT, "reserved_bytes", -self._stats[device]["reserved_bytes"]["all"]["current"])

    def stats(self, device: int) -> dict[str, Any]:
        """What torch's own function tells."""
        return {name: _copied(figure) for name, figure in self._stats[device].items()}

    def in_another_order(self, device: int) -> dict[str, Any]:
        """The same, as torch.accelerator asks for it."""
        told = self.stats(device)
        del told["reserved_bytes_by_private_pools"]
        return dict(sorted(told.items()))

    def reset_peaks(self, device: int) -> None:
        """Let all peaks begin anew."""
        for part in _parts(self._stats[device]):
            part["peak"] = part["current"]
        self.on_reset()

    def reset_sums(self, device: int) -> None:
        """Let what was taken and given back begin anew."""
        for part in _parts(self._stats[device]):
            part["allocated"] = part["freed"] = 0

    def _count_block(self, device: int, nbytes: int, sign: int) -> None:
        size = -(-nbytes // BLOCK) * BLOCK
        for name in ("allocated_bytes", "active_bytes"):
            self._count(device, nbytes, name, sign * size)
        self._count(device, nbytes, "requested_bytes", sign * nbytes)
        for name in ("allocation", "active"):
            self._count(device, nbytes, name, sign)
        if nbytes > 1 << 20:
            _move(self._stats[device]["oversize_allocations"], sign)

    def _count(self, device: int, nbytes: int, name: str, amount: int) -> None:
        figure = self._stats[device][name]
        for pool in ("all", "small_pool" if nbytes <= 1 << 20 else "large_pool"):
            _move(figure[pool], amount)


def install(allocator: FakeAllocator, patch: pytest.MonkeyPatch, backend: str = "native") -> None:
    """Let torch ask the fake, as a program that has used CUDA does; `patch` undoes what others replace later, too."""
    for name, function in {
        "_cuda_memoryStats": allocator.stats,
        "_accelerator_getDeviceStats": allocator.in_another_order,
        "_cuda_resetPeakMemoryStats": allocator.reset_peaks,
        "_accelerator_resetPeakStats": allocator.reset_peaks,
        "_cuda_resetAccumulatedMemoryStats": allocator.reset_sums,
        "_cuda_hasPrimaryContext": allocator.used.__contains__,
        "_cuda_getAllocatorBackend": lambda: backend,
    }.items():
        patch.setattr(torch._C, name, function, raising=False)
    for module in (torch.cuda, torch.cuda.memory):
        patch.setattr(module, "is_initialized", lambda: True)
    patch.setattr(torch.cuda, "device_count", lambda: len(allocator._stats))


def _stats() -> dict[str, Any]:
    figures = {name: {pool: _stat() for pool in POOLS} for name in FIGURES}
    figures["reserved_bytes_by_private_pools"] = {}
    return {**dict.fromkeys(COUNTERS, 0), **figures, "oversize_allocations": _stat(), "oversize_segments": _stat()}


def _stat() -> dict[str, int]:
    return {"current": 0, "peak": 0, "allocated": 0, "freed": 0}


def _copied(figure: Any) -> Any:
    return {name: _copied(part) for name, part in figure.items()} if isinstance(figure, dict) else figure


def _parts(stats: dict[str, Any]) -> Iterator[dict[str, int]]:
    """Whatever has a peak."""
    if "peak" in stats:
        yield stats
    for figure in stats.values():
        if isinstance(figure, dict):
            yield from _parts(figure)


def _move(part: dict[str, int], amount: int) -> None:
    part["current"] += amount
    part["peak"] = max(part["peak"], part["current"])
    part["allocated" if amount > 0 else "freed"] += abs(amount)
