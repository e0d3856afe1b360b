"""Recorded results on their way into a program's tensors, through pinned memory that is taken before any kernel waits.

CUDA may hold who asks for pinned memory until all kernels are done, and kernels here wait for ranks that may wait for
what this host posts next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from prism.core.calls import Ref
from prism.gpu.cuda.chunks import dealt, whole
from prism.gpu.cuda.copies import flat_bytes, memory
from prism.gpu.cuda.driver import Driver
from prism.gpu.group.tensors import Reads

BUFFERS, CAPACITY = 16, 64 << 10
"""Buffers, and bytes of each: a host that is further ahead of its device than all of them waits for it."""


class Recorded:
    """The buffers of a rank, used in turns."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._buffers: list[torch.Tensor] = []
        self._read: list[Any] = [None] * BUFFERS  # the event after which a buffer has been read
        self._turn = 0

    def prepare(self) -> None:
        """Take the memory, if it is not there yet."""
        if not self._buffers:
            taken = self._driver.pinned(BUFFERS * CAPACITY)
            self._buffers = [taken[at : at + CAPACITY] for at in range(0, len(taken), CAPACITY)]

    def put(self, result: Ref, source: Reads, outputs: Sequence[torch.Tensor]) -> None:
        """Let the program's stream fill tensors with the bytes of a result; the host goes on."""
        flat, at = [flat_bytes(tensor) for tensor in outputs], 0
        for pieces in dealt(whole([len(one) for one in flat], result.nbytes), CAPACITY):
            turn, self._turn = self._turn, (self._turn + 1) % BUFFERS
            if self._read[turn] is not None:
                self._read[turn].synchronize()
            size = pieces[-1].offset + pieces[-1].nbytes
            source.read_into(result.part(at, size), [memory(self._buffers[turn][:size])])
            for tensor, start, nbytes, offset in pieces:
                self._driver.copy(flat[tensor][start : start + nbytes], self._buffers[turn][offset : offset + nbytes])
            self._read[turn] = self._driver.mark(self._driver.current())
            at += size
