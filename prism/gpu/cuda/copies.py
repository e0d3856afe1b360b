"""Tensors of a device to payload bytes and back, through two pinned buffers in turns: one is copied, one is written.

Nothing is allocated on the device. A Copier belongs to one thread at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from prism.core.calls import Ref
from prism.gpu.cuda.chunks import Piece, Span, dealt, scattered, whole
from prism.gpu.cuda.driver import Driver
from prism.gpu.group.tensors import Reads
from prism.gpu.meter.memory import uncounted
from prism.net.payloads import Arena

CAPACITY = 8 << 20
"""Bytes of a pinned buffer: large against the 10 us that a copy costs, small against a host with many ranks."""


class Copier:
    """Two pinned buffers, made when first needed: pinning takes half a second a GiB."""

    def __init__(self, driver: Driver, capacity: int = CAPACITY) -> None:
        self._driver = driver
        self._capacity = capacity
        self._buffers: list[torch.Tensor] = []
        self._busy: list[Any] = [None, None]  # the copy out of a buffer that has to end before it is filled again
        self._lock = threading.Lock()

    def save(self, tensors: Sequence[torch.Tensor], into: Arena, ref: Ref, stream: Any, factor: Any = None) -> None:
        """Write the tensors' elements, times a factor, to a reserved place; returns when they are there."""
        flat = [flat_bytes(tensor) for tensor in tensors]
        written, under_way = 0, None
        with self._lock, self._driver.on(stream):
            self._make()
            for turn, pieces in enumerate(dealt(whole([len(one) for one in flat]), self._capacity)):
                buffer = self._buffers[turn % 2]
                self._copy(flat, pieces, buffer, down=True)
                if under_way is not None:
                    written += self._write(*under_way, into, ref, written, factor, tensors[0].dtype)
                under_way = (buffer[: pieces[-1].offset + pieces[-1].nbytes], self._driver.mark(stream))
            if under_way is not None:
                self._write(*under_way, into, ref, written, factor, tensors[0].dtype)

    def load(
        self, ref: Ref, source: Reads, into: Sequence[torch.Tensor], blocks: Sequence[int], room: Sequence[int], on: Any
    ) -> None:
        """Fill tensors from payload bytes, on a stream; returns when the last copy is in it.

        `blocks`, where given, are bytes that do not fill their `room` (elements).
        """
        flat = [flat_bytes(tensor) for tensor in into]
        sizes = [len(one) for one in flat]
        spans = whole(sizes, ref.nbytes)
        if blocks:
            spans = scattered(sizes, blocks, [count * into[0].element_size() for count in room])
        self._fill(flat, spans, ref, source, on)

    def _fill(self, flat: list[torch.Tensor], spans: Iterable[Span], ref: Ref, source: Reads, stream: Any) -> None:
        read = 0
        with self._lock, self._driver.on(stream):
            self._make()
            for turn, pieces in enumerate(dealt(spans, self._capacity)):
                buffer, size = self._buffers[turn % 2], pieces[-1].offset + pieces[-1].nbytes
                if self._busy[turn % 2] is not None:
                    self._busy[turn % 2].synchronize()
                source.read_into(ref.part(read, size), [memory(buffer[:size])])
                self._copy(flat, pieces, buffer, down=False)
                self._busy[turn % 2] = self._driver.mark(stream)
                read += size

    def _copy(self, flat: list[torch.Tensor], pieces: list[Piece], buffer: torch.Tensor, down: bool) -> None:
        for tensor, start, nbytes, offset in pieces:
            device, host = flat[tensor][start : start + nbytes], buffer[offset : offset + nbytes]
            if down:
                host.copy_(device, non_blocking=True)
            else:
                device.copy_(host, non_blocking=True)

    def _write(
        self, buffer: torch.Tensor, copied: Any, into: Arena, ref: Ref, at: int, factor: Any, dtype: torch.dtype
    ) -> int:
        copied.synchronize()
        if factor is not None:
            elements = buffer.view(dtype)
            elements.copy_((elements * factor).to(dtype))
        into.write(ref.part(at, len(buffer)), [memory(buffer)])
        return len(buffer)

    @uncounted
    def _make(self) -> None:
        if not self._buffers:
            self._buffers = [self._driver.pinned(self._capacity) for _ in range(2)]


def flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a dense tensor as uint8[nbytes]; autograd does not notice what is done to it."""
    data = tensor.data
    flat = data.view(-1) if data.is_contiguous() else data.as_strided((data.numel(),), (1,))
    return flat.view(torch.uint8)


def memory(buffer: torch.Tensor) -> memoryview:
    """The bytes of a host tensor, shared."""
    return memoryview(buffer.numpy())  # type: ignore[arg-type]
