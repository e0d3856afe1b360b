"""Holding a stream until the host lets it go on, so that the program's own thread is never held.

A gate is a number in memory that host and device both see. A stream parks until the number is as high as its ticket.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

GREATER_OR_EQUAL = 0
LAST_TICKET = (1 << 31) - 1


class Gate:
    """One for each stream that parks; tickets are opened in the order in which they were given."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._number = driver.pinned(4).view(torch.int32)
        self._number[0] = 0
        self._given = 0

    def park(self, stream: Any) -> int:
        """Hold what follows in the stream; returns the ticket that lets it go on."""
        self._given += 1
        assert self._given < LAST_TICKET, "a stream is parked fewer than two thousand million times"
        self._driver.hold(stream, self._number, self._given)
        return self._given

    def open(self, ticket: int) -> None:
        """Let the stream go on past the ticket, and past all before it."""
        self._driver.release(self._number, max(ticket, int(self._number[0])))


def hold(stream: Any, number: torch.Tensor, least: int) -> None:
    """Let a CUDA stream wait until a number in pinned memory is at least so high; raises RuntimeError."""
    code = _driver_library().cuStreamWaitValue32_v2(stream.cuda_stream, number.data_ptr(), least, GREATER_OR_EQUAL)
    if code:
        raise RuntimeError(f"cuStreamWaitValue32 failed with CUDA error {code}: this GPU cannot hold a stream")


def zero(tensor: torch.Tensor, stream: Any) -> None:
    """Set the bytes of a dense tensor to 0 on a stream; a copy engine does it, no kernel has to be loaded."""
    library = _driver_library()
    code = library.cuMemsetD8Async(tensor.data_ptr(), 0, tensor.numel() * tensor.element_size(), stream.cuda_stream)
    if code:
        raise RuntimeError(f"cuMemsetD8Async failed with CUDA error {code}")


@functools.cache
def _driver_library() -> Any:
    library = ctypes.CDLL("libcuda.so.1")
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    library.cuStreamWaitValue32_v2.argtypes = [pointer, ctypes.c_uint64, number, number]
    library.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, pointer]
    return library
