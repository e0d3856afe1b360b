"""What it takes to open device memory (cuMemSetAccess), for gpu_switch_rank.py; no paging is in it."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any, ClassVar

import torch

from benchmarks.programs.host_copies import buffers

MIB = 1 << 20
COPIED = 1 << 30
"""Bytes of a copy that goes on meanwhile."""
FASTEST = 60e9
"""Bytes a second that no copy exceeds."""


class Kind(ctypes.Structure):
    """CUmemAllocationProp: memory of a device."""

    _fields_: ClassVar = [
        ("type", c_int), ("handle_types", c_int), ("location_type", c_int), ("location_id", c_int),
        ("win32", c_void_p), ("flags", c_uint64),
    ]  # fmt: skip


class Access(ctypes.Structure):
    """CUmemAccessDesc: a device reads and writes."""

    _fields_: ClassVar = [("location_type", c_int), ("location_id", c_int), ("flags", c_int)]


class Opener:
    """Some handles of device memory, and a range of addresses for them."""

    def __init__(self, nbytes: int, handles: int) -> None:
        self._driver, self._bytes = ctypes.CDLL("libcuda.so.1"), nbytes
        self._handles = [c_uint64() for _ in range(handles)]
        self._range, self._start = c_size_t(nbytes * handles), c_uint64()
        self._context = c_void_p()
        self._call("cuCtxGetCurrent", byref(self._context))
        self._call("cuMemAddressReserve", byref(self._start), self._range, c_size_t(0), c_uint64(0), c_uint64(0))

    def work(self, seconds: float) -> list[float]:
        """Make and map the handles, open them by one call, and give them back, for so long; seconds of each opening."""
        self._call("cuCtxSetCurrent", self._context)
        access, took = Access(1, 0, 3), []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._map()
            begin = time.monotonic()
            self._call("cuMemSetAccess", self._start, self._range, byref(access), c_size_t(1))
            took.append(time.monotonic() - begin)
            self._call("cuMemUnmap", self._start, self._range)
            for handle in self._handles:
                self._call("cuMemRelease", handle)
        return took

    def free(self) -> None:
        """Give the addresses back."""
        self._call("cuMemAddressFree", self._start, self._range)

    def _map(self) -> None:
        kind, size = Kind(1, 0, 1, 0, None, 0), c_size_t(self._bytes)
        for number, handle in enumerate(self._handles):
            self._call("cuMemCreate", byref(handle), size, byref(kind), c_uint64(0))
            at = c_uint64(self._start.value + number * self._bytes)
            self._call("cuMemMap", at, size, c_size_t(0), handle, c_uint64(0))

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._driver, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {result}")


def opens(mib: int, handles: int, threads: int, copies_s: float, seconds: float) -> dict[str, Any]:
    """Open handles of `mib` MiB by `threads` at once, while this process copies back for `copies_s`, 0 for not at all.

    Returns `calls`, how many calls of `handles` handles all threads made, `us`, what one took, and whether this process
    was `copying` to the end.
    """
    stream = own_copies(copies_s)
    openers = [Opener(mib * MIB, handles) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        took = [each for part in pool.map(Opener.work, openers, threads * [seconds]) for each in part]
    copying = not stream.query()
    stream.synchronize()
    for opener in openers:
        opener.free()
    return {"calls": len(took), "us": 1e6 * sum(took) / len(took), "copying": copying}


def own_copies(seconds: float) -> torch.cuda.Stream:
    """A stream that copies from host memory for so long, or longer."""
    stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    if seconds > 0:
        host, device = buffers("huge", COPIED)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(1 + int(seconds * FASTEST / COPIED)):
                device.copy_(host, non_blocking=True)
    return stream
