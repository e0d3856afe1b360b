"""Huge pages under the memory that forks share: a fork copies one entry where it would copy 512, an exit drops one.

Nothing else changes: a forked process that writes still copies 4 KiB, and what it allocates comes in small pages.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

SIZE = 2 << 20
MADV_COLLAPSE = 25  # Linux 6.1
_PRIVATE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(\[heap\])?\n")
"""A line of /proc/self/maps: memory of this process alone that no file lies behind."""


def collapse() -> None:
    """Put huge pages under all memory of this process where the kernel has some; takes a ms or two for each MiB."""
    madvise = ctypes.CDLL(None).madvise
    for start, stop in ranges(Path("/proc/self/maps").read_text()):
        for page in range(start, stop, SIZE):  # one by one: where there is none for one, there may be for the next
            madvise(ctypes.c_void_p(page), ctypes.c_size_t(SIZE), MADV_COLLAPSE)


def ranges(maps: str) -> Iterator[tuple[int, int]]:
    """The parts of private memory that huge pages fill."""
    for line in maps.splitlines(keepends=True):
        if found := _PRIVATE.fullmatch(line):
            start, stop = -(-int(found[1], 16) // SIZE) * SIZE, int(found[2], 16) // SIZE * SIZE
            if start < stop:
                yield start, stop
