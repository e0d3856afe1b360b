"""The C interface of ext/cuda (api.h) for ctypes: its structures, its functions and its errors."""

from __future__ import annotations

import ctypes
import importlib.machinery
from ctypes import POINTER, c_char_p, c_int32, c_uint32, c_uint64
from pathlib import Path
from typing import ClassVar

DONE, DEVICE_FULL, POOL_FULL, SPILL_FULL, CORRUPT, INVALID, FAILED = range(7)
CALLS = ("settle", "pin", "create", "map", "open", "unmap", "release", "copy", "wait", "pause")
"""The kinds of calls that moves are made of, in the order of api.h."""
SLOT = 32 << 20
"""Bytes of a slot of the host pool."""


class PagingError(RuntimeError):
    """Memory could not be moved; `status` is one of the constants above."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Moved(ctypes.Structure):
    """What one call moved: bytes of device memory, ns that it took, and what the device, by its number, has free then.

    `copying` is, by the device's clock, from the begin of the first copy to the end of the last; `starved` how much of
    that passed without a copy, because memory was not open yet. Both in ns.
    """

    _fields_: ClassVar = [
        ("bytes", c_uint64), ("ns", c_uint64), ("free", c_uint64), ("device", c_uint64), ("copying", c_uint64),
        ("starved", c_uint64),
    ]  # fmt: skip


class Figures(ctypes.Structure):
    """What the process has allocated: segments, their bytes, those that are on the device, requests passed on."""

    _fields_: ClassVar = [("segments", c_uint64), ("bytes", c_uint64), ("resident", c_uint64), ("passed", c_uint64)]


def library_path() -> Path | None:
    """The library that ranks preload; None where it was not built."""
    folder = Path(__file__).parents[1]
    found = (folder / f"_residency{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    return next((path for path in found if path.exists()), None)


class Tally(ctypes.Structure):
    """All calls of the driver of one kind that the process has made: how many, and ns together."""

    _fields_: ClassVar = [("count", c_uint64), ("ns", c_uint64)]


class Paging:
    """The device memory of this process, which has the library preloaded: only then `cudaMalloc` is the library's."""

    def __init__(self, library: Path) -> None:
        self._c = ctypes.CDLL(str(library))
        self._c.residency_error.restype = c_char_p
        self._c.residency_open.argtypes = [c_char_p, c_uint32, c_uint32]
        self._c.residency_out.argtypes = [POINTER(Moved)]
        self._c.residency_in.argtypes = [c_uint32, POINTER(Moved)]
        self._c.residency_spill.argtypes = [c_char_p, POINTER(Moved)]
        self._c.residency_ask_through.argtypes = [c_int32]
        self._c.residency_read.argtypes = [POINTER(Figures)]
        self._c.residency_read_calls.argtypes = [POINTER(Tally)]

    def open(self, pool: Path, slots: int, owner: int) -> None:
        """Use the host pool in this file, as owner `owner` (from 1)."""
        self._check(self._c.residency_open(str(pool).encode(), slots, owner))

    def out(self) -> Moved:
        """Copy all memory to the host and give it back to the device; nothing on the device may use it meanwhile."""
        moved = Moved()
        self._check(self._c.residency_out(moved))
        return moved

    def back(self, patience_ms: int = 0) -> Moved:
        """Take memory from the device again and copy back; memory that others are giving back is waited for so long."""
        moved = Moved()
        self._check(self._c.residency_in(patience_ms, moved))
        return moved

    def spill(self, path: Path) -> Moved:
        """Move the host copy to a file, which `back` reads, verifies and removes."""
        moved = Moved()
        self._check(self._c.residency_spill(str(path).encode(), moved))
        return moved

    def ask_through(self, descriptor: int) -> None:
        """Where to ask for room, and be answered, when the device has none left."""
        self._c.residency_ask_through(descriptor)

    def figures(self) -> Figures:
        """What is allocated now."""
        figures = Figures()
        self._c.residency_read(figures)
        return figures

    def calls(self) -> dict[str, tuple[int, int]]:
        """By kind, how many calls moves have taken so far, and ns together."""
        tallies = (Tally * len(CALLS))()
        self._c.residency_read_calls(tallies)
        return {kind: (tally.count, tally.ns) for kind, tally in zip(CALLS, tallies, strict=True)}

    def _check(self, status: int) -> None:
        if status != DONE:
            raise PagingError(status, self._c.residency_error().decode())
