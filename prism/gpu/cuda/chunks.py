"""How the bytes of tensors are dealt to buffers of one size: which piece of which tensor lies where in which buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Bytes of one tensor, of those that are copied together: its place among them, the first byte, how many."""

    tensor: int
    start: int
    nbytes: int


class Piece(NamedTuple):
    """A span, or a part of one, that lies `offset` bytes into its buffer."""

    tensor: int
    start: int
    nbytes: int
    offset: int


def whole(sizes: Sequence[int], nbytes: int | None = None) -> Iterator[Span]:
    """The tensors of these sizes back to back, as far as `nbytes` reach; left out: to their end."""
    left = sum(sizes) if nbytes is None else nbytes
    for tensor, size in enumerate(sizes):
        if min(size, left):
            yield Span(tensor, 0, min(size, left))
        left -= min(size, left)


def scattered(sizes: Sequence[int], blocks: Sequence[int], room: Sequence[int]) -> Iterator[Span]:
    """Blocks of bytes, each at the start of its room (bytes of the tensors back to back), cut where a tensor ends."""
    begin = 0
    for block, space in zip(blocks, room, strict=True):
        yield from _cut(sizes, begin, block)
        begin += space


def dealt(spans: Iterable[Span], capacity: int) -> Iterator[list[Piece]]:
    """The spans in order, in buffers of so many bytes, each filled before the next is begun."""
    buffer: list[Piece] = []
    used = 0
    for tensor, start, nbytes in spans:
        while nbytes:
            size = min(nbytes, capacity - used)
            buffer.append(Piece(tensor, start, size, used))
            start, nbytes, used = start + size, nbytes - size, used + size
            if used == capacity:
                yield buffer
                buffer, used = [], 0
    if buffer:
        yield buffer


def _cut(sizes: Sequence[int], begin: int, nbytes: int) -> Iterator[Span]:
    first = 0
    for tensor, size in enumerate(sizes):
        start, end = max(begin - first, 0), min(begin + nbytes - first, size)
        if start < end:
            yield Span(tensor, start, end - start)
        first += size
