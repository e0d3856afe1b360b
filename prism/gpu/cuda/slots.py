"""Results on their way to streams that are parked for them: pinned buffers, filled by the host, read by the device.

All that the device is to do is put into the stream at the post: park, copy from a buffer, chunk by chunk. Whoever has
the result fills the buffers and lets the stream go on, and asks nothing of CUDA but whether a buffer has been read: a
thread that had to put work into a stream could wait for ever behind the one that it shall let go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from prism.gpu.cuda.chunks import dealt, whole
from prism.gpu.cuda.copies import CAPACITY, flat_bytes, memory
from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.gate import Gate

BUFFERS = 4

Read = Callable[[int, memoryview], None]
"""Fills a buffer from a byte of the result on."""


class Chunk(NamedTuple):
    """A piece of a result: its buffer, the event after which that may be filled, the ticket that opens the gate."""

    buffer: torch.Tensor
    free: Any
    ticket: int


class Slots:
    """The buffers of a rank, given out in turns in the order of the posts."""

    def __init__(self, driver: Driver, capacity: int = CAPACITY) -> None:
        self._driver = driver
        self._capacity = capacity
        self._buffers: list[torch.Tensor] = []
        self._read: list[Any] = [None] * BUFFERS  # the event after which a buffer has been read
        self._turn = 0

    def expect(self, outputs: Sequence[torch.Tensor], gate: Gate, stream: Any) -> list[Chunk]:
        """Put into a stream what fills tensors once their bytes are there."""
        if not self._buffers:
            self._buffers = [self._driver.pinned(self._capacity) for _ in range(BUFFERS)]
        flat, chunks = [flat_bytes(tensor) for tensor in outputs], list[Chunk]()
        for pieces in dealt(whole([len(one) for one in flat]), self._capacity):
            turn, self._turn = self._turn, (self._turn + 1) % BUFFERS
            buffer = self._buffers[turn][: pieces[-1].offset + pieces[-1].nbytes]
            chunks.append(Chunk(buffer, self._read[turn], gate.park(stream)))
            for tensor, start, nbytes, offset in pieces:
                self._driver.copy(flat[tensor][start : start + nbytes], buffer[offset : offset + nbytes])
            self._read[turn] = self._driver.mark(stream)
        return chunks


def fill(chunks: Sequence[Chunk], gate: Gate, read: Read) -> None:
    """Bring a result to those who are parked for it."""
    at = 0
    for buffer, free, ticket in chunks:
        if free is not None:
            free.synchronize()
        read(at, memory(buffer))
        at += len(buffer)
        gate.open(ticket)
