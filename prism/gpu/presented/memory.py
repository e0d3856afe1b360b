"""torch.cuda's memory statistics, from the counters of prism.gpu.meter.memory.

Tensors of the host are counted too: they are on the same CPU. There is no caching allocator, so that what is reserved
is what is allocated.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import torch

from prism.gpu.meter.memory import MemoryMeter, MemoryStats
from prism.gpu.presented.placement import Placement

_METRICS = (
    "allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes", "inactive_split_bytes", "allocation",
    "active", "segment", "inactive_split",
)  # fmt: skip
_POOLS = ("all", "large_pool", "small_pool")
_MOMENTS = ("current", "peak", "allocated", "freed")
_COUNTERS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")
_KEYS = (
    *(".".join(key) for key in itertools.product(_METRICS, _POOLS, _MOMENTS)),
    *(".".join(key) for key in itertools.product(("oversize_allocations", "oversize_segments"), _MOMENTS)),
    *_COUNTERS,
)


class Memory:
    """torch.cuda.memory; each method is the function of that name, sizes are in bytes."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._meter = MemoryMeter()
        if self._meter.reason is not None:
            warnings.warn(f"torch.cuda's memory statistics are zeros: {self._meter.reason}", stacklevel=2)

    def _stats(self, device: Any) -> MemoryStats:
        self._placement.index(device)
        return self._meter.stats() or MemoryStats(0, 0, 0, 0)

    def memory_allocated(self, device: Any = None) -> int:
        return self._stats(device).current_rounded

    def max_memory_allocated(self, device: Any = None) -> int:
        return self._stats(device).peak_rounded

    def memory_reserved(self, device: Any = None) -> int:
        return self._stats(device).current_rounded

    def max_memory_reserved(self, device: Any = None) -> int:
        return self._stats(device).peak_rounded

    def memory_cached(self, device: Any = None) -> int:
        return self._stats(device).current_rounded

    def max_memory_cached(self, device: Any = None) -> int:
        return self._stats(device).peak_rounded

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        self._meter.reset_peak()

    def reset_max_memory_allocated(self, device: Any = None) -> None:
        self._meter.reset_peak()

    def reset_max_memory_cached(self, device: Any = None) -> None:
        self._meter.reset_peak()

    def reset_accumulated_memory_stats(self, device: Any = None) -> None:
        self._placement.index(device)

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        total = self._placement.model.memory
        return max(total - self.memory_allocated(device), 0), total

    def memory_stats(self, device: Any = None) -> dict[str, Any]:
        stats = self._stats(device)
        known: dict[str, Any] = dict.fromkeys(_KEYS, 0)
        for metric in ("allocated_bytes", "active_bytes", "reserved_bytes"):
            known[f"{metric}.all.current"] = stats.current_rounded
            known[f"{metric}.all.peak"] = stats.peak_rounded
        known["requested_bytes.all.current"] = stats.current
        known["requested_bytes.all.peak"] = stats.peak
        return known

    def empty_cache(self) -> None:
        """There is no cache."""

    def caching_allocator_enable(self, value: bool = True) -> None:
        """There is no caching allocator."""

    def get_allocator_backend(self) -> str:
        return "native"

    def ipc_collect(self) -> None:
        """No memory is shared."""


def install(placement: Placement) -> None:
    """Replace the functions; torch's own memory_summary is written in terms of them."""
    memory = Memory(placement)
    for name in vars(Memory):
        if not name.startswith("_"):
            setattr(torch.cuda, name, getattr(memory, name))
            setattr(torch.cuda.memory, name, getattr(memory, name))
