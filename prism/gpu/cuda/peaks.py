"""torch's peaks of device memory, which laps begin anew without the program's seeing it.

torch's allocator keeps one peak of each figure. A lap reads the peaks and begins them anew; so what the program would
see without laps is kept here, and the functions of torch._C by which Python reads peaks, or begins them anew, are
replaced. A peak is the highest of the laps since the program itself began it anew, and that is torch's to the byte.
Two things are not covered: C++ that asks the allocator itself gets the peaks of the lap, and what another thread takes
and gives back in the microseconds between the read and the reset is seen by neither.
"""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

READS = ("_cuda_memoryStats", "_accelerator_getDeviceStats")
RESETS = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")

Stats = dict[str, Any]
"""A figure by name: its `current`, `peak`, `allocated` and `freed`, or such figures by kind of pool, or by pool."""


@dataclass
class _Kept:
    """What was there before torch's peaks last began anew, in bytes but for `shown`."""

    shown: Stats | None = None  # the peaks since the program itself began them anew; None: no lap has ended since
    lap: int = 0
    allocated: int = 0  # of the whole run
    reserved: int = 0


class Peaks:
    """The peaks of each device: of a lap, of the whole run, and as the program sees them. One a process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may read while its thread is in here
        self._kept: defaultdict[int, _Kept] = defaultdict(_Kept)
        self._read: Callable[[int], Stats] = torch._C._cuda_memoryStats
        self._reset: Callable[[int], None] = torch._C._cuda_resetPeakMemoryStats
        for name in READS:
            _replace(name, self._show)
        for name in RESETS:
            _replace(name, self._begin_anew)

    def lap(self, device: int) -> int:
        """The most bytes that tensors took since the last lap; resets by the program do not matter to it."""
        with self._lock:
            stats, kept = self._note(device, self._reset), self._kept[device]
            if kept.shown is not None:
                _lift(stats, kept.shown)
            most, kept.shown, kept.lap = kept.lap, stats, 0
            return most

    def allocated(self, device: int) -> int:
        """The most bytes that tensors took in the whole run, as `max_memory_allocated` counts them."""
        with self._lock:
            return max(self._kept[device].allocated, _peak(self._read(device), "allocated_bytes"))

    def reserved(self, device: int) -> int:
        """The most bytes that the allocator held in the whole run, as `max_memory_reserved` counts them."""
        with self._lock:
            return max(self._kept[device].reserved, _peak(self._read(device), "reserved_bytes"))

    def _note(self, device: int, reset: Callable[[int], None]) -> Stats:
        """Begin torch's peaks anew; returns what they were."""
        stats = self._read(device)
        reset(device)
        kept = self._kept[device]
        allocated = _peak(stats, "allocated_bytes")
        kept.lap, kept.allocated = max(kept.lap, allocated), max(kept.allocated, allocated)
        kept.reserved = max(kept.reserved, _peak(stats, "reserved_bytes"))
        return stats

    def _show(self, plain: Callable[[int], Stats], device: int) -> Stats:
        """The program reads."""
        with self._lock:
            stats, kept = plain(device), self._kept.get(device)
            if kept is not None and kept.shown is not None:
                _lift(stats, kept.shown)
            return stats

    def _begin_anew(self, plain: Callable[[int], None], device: int) -> None:
        """The program begins its peaks anew."""
        with self._lock:
            self._note(device, plain)
            self._kept[device].shown = None


def _replace(name: str, instead: Callable[..., Any]) -> None:
    plain = getattr(torch._C, name)

    @functools.wraps(plain)
    def replaced(device: int) -> Any:
        return instead(plain, device)

    setattr(torch._C, name, replaced)


def _peak(stats: Stats, name: str) -> int:
    peak: int = stats[name]["all"]["peak"]
    return peak


def _lift(stats: Stats, kept: Stats) -> None:
    """Raise peaks to those that were kept, where these are higher; a pool that is new has none."""
    for name, figure in stats.items():
        if isinstance(figure, dict) and name in kept:
            before = kept[name]
            if "peak" not in figure:
                _lift(figure, before)
            elif before["peak"] > figure["peak"]:
                figure["peak"] = before["peak"]
