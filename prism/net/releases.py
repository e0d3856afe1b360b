"""When virtual members post, as an assistant tells a device: numbers in memory that both map, as the board's.

int64 words, zeros at first. A header: MAGIC, the window W, and the most heads of an entry. Then W entries; the one of
planned operation n is the (n mod W)-th: n + 1 once all else is written, how many heads, and the heads in ns of
CLOCK_MONOTONIC. It is written over when operation n has ended. ext/nccl/cuda/releases.h tells the engine the same, and
what heads mean.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prism.core.graph import Int64
from prism.net.board import make_cells

MAGIC = 0x5052_5245_4C31
HEADER = 64
"""Words of the header."""
LARGEST = 512
"""Entries, at most."""
ROOM = 8 << 20
"""Bytes that entries take at most, unless SMALLEST of them take more."""
SMALLEST = 16


class Releases:
    """The entries of one sandbox rank: its assistant writes them, its device reads them."""

    def __init__(self, path: Path, most_heads: int) -> None:
        """Make the file; `most_heads`: of any operation."""
        words = entry_words(most_heads)
        self.window = window_for(words)
        self._cells = make_cells(path, HEADER + self.window * words)
        self._cells[:3] = MAGIC, self.window, most_heads
        self._entries = self._cells[HEADER:].reshape(self.window, words)

    def tell(self, number: int, heads: Int64) -> None:
        """Let the device know of operation `number`; the one whose entry it takes has ended."""
        entry = self._entries[number % self.window]
        entry[1] = len(heads)
        entry[2 : 2 + len(heads)] = heads
        entry[0] = number + 1  # last: who sees it sees all the rest


def entry_words(most_heads: int) -> int:
    """The words of an entry: whole cache lines."""
    return -(-(most_heads + 2) // 8) * 8


def window_for(words: int) -> int:
    """How many entries of so many words there are: a power of two."""
    window = LARGEST
    while window > SMALLEST and window * words * np.int64().itemsize > ROOM:
        window //= 2
    return window
