"""What of the host's memory a rank has for itself: weighed where it is about to wait, and spilled when it is told.

Spilling is C++ (ext/spill): what only this process holds is written to a file that has no name, and mapped from there.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import resource
import shutil
from pathlib import Path

from prism.core.events import Spilled, Weighed
from prism.core.stage.admission import amount
from prism.errors import RunError
from prism.exhaustion import FULL

FAULTS = 256
"""Pages that a rank may have got since it was weighed before it is worth weighing again."""
SAMPLES = 8
"""Ranks that are weighed where no bound is set, so that it can be said what all will take."""
MANY = 64
"""Ranks of a world from which on that is worth knowing."""


class HostMemory:
    """The memory of one rank's process, of so many that are captured; `bound`: whether it is bounded."""

    def __init__(self, rank: int, captured: int, bound: bool, spill: str) -> None:
        self._rank = rank
        self._bound = bound
        self._spill = spill
        self._sampled = captured >= MANY and rank < SAMPLES
        self._waits = 0
        self._faults = 0  # pages that it had got when it was last weighed, or has spilled
        self._left = 0  # bytes that stayed when it last spilled
        self._library = _load() if bound or self._sampled else None
        if spill:
            self._open()

    def weigh(self) -> Weighed | None:
        """What is held, page tables included; None where that is not worth finding out again."""
        if self._library is None or not self._worth():
            return None
        if self._left:  # looking at all pages takes longer than a small operation
            held = self._left + (_faults() - self._faults) * resource.getpagesize()
            return Weighed(rank=self._rank, nbytes=held)
        self._faults = _faults()
        private, status = self._library.prism_private_bytes(), _status()
        if private < 0:
            return None
        shared = max(status["RssAnon"] - private, 0)
        return Weighed(rank=self._rank, nbytes=private + status["VmPTE"], shared=shared)

    def spill(self) -> Spilled:
        """Put away what can be; no other thread runs meanwhile."""
        assert self._library is not None, "ranks are told to spill where a bound is set"
        left = ctypes.c_int64()
        status = self._library.prism_spill(ctypes.byref(left))
        held = left.value if left.value >= 0 else max(self._library.prism_private_bytes(), 0)
        self._left, self._faults = held + _status()["VmPTE"], _faults()
        return Spilled(rank=self._rank, nbytes=self._left, error=self._told(status))

    def _worth(self) -> bool:
        self._waits += 1
        if self._bound:
            return _faults() - self._faults >= FAULTS
        return self._waits.bit_count() == 1  # the 1st, 2nd, 4th, ... time

    def _open(self) -> None:
        assert self._library is not None
        status = self._library.prism_spill_open(self._spill.encode())
        if status:
            raise RunError(f"devices.spill: {self._spill}: {os.strerror(status)}; name a folder that can be written to")

    def _told(self, status: int) -> str:
        if status not in FULL:
            return ""  # what could not be put away stays in memory, and counts
        free = amount(shutil.disk_usage(self._spill).free)
        return f"devices.spill: {self._spill}: {os.strerror(status)}, {free} are free; make room or name another folder"


def _load() -> ctypes.CDLL | None:
    spec = importlib.util.find_spec("prism.gpu._spill")
    if spec is None or spec.origin is None:
        return None
    library = ctypes.CDLL(spec.origin)
    library.prism_private_bytes.restype = ctypes.c_int64
    return library


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _status() -> dict[str, int]:
    """What the kernel says of this process's memory, in bytes."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines() if line.endswith(" kB"))
    return {key.rstrip(":"): int(amount) * 1024 for key, amount, _ in lines}
