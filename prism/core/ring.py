"""The one order in which sums are made: the fold of a ring, chunk by chunk.

A ring all_reduce of N ranks cuts the data into loops of N chunks. Chunk c of a loop is owned by group rank c: its sum
starts with the input of rank c + 1, goes round the ring and ends with the input of rank c. Every sum in PRISM is made
in this order, whoever makes it and whenever its parts came in, so results do not depend on scheduling. The chunk sizes
are those of NCCL's Simple protocol on one channel: 4 slots of 512 KiB, and in the last loop what is left over N,
rounded up to 16 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

CHUNK_BYTES = 4 * 512 * 1024
ALIGN_BYTES = 16


def chunks(count: int, itemsize: int, size: int) -> Iterator[tuple[int, int, int]]:
    """The pieces of an all_reduce over `size` ranks as (start, stop, owner), in elements; they cover 0..count once."""
    full = max(CHUNK_BYTES // itemsize, 1)
    start = 0
    while start < count:
        left = count - start
        chunk = full if left >= size * full else _last_chunk(left, itemsize, size)
        for owner in range(size):
            stop = min(start + chunk, count)
            if start < stop:
                yield start, stop, owner
            start = stop


def _last_chunk(left: int, itemsize: int, size: int) -> int:
    nbytes = -(-left // size) * itemsize
    return max(-(-nbytes // ALIGN_BYTES) * ALIGN_BYTES // itemsize, 1)


def order(owner: int, size: int) -> list[int]:
    """The group ranks whose inputs are added, first to last, for a chunk that `owner` owns."""
    return [(owner + 1 + step) % size for step in range(size)]
