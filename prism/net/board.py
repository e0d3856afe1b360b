"""The board of an emulation: numbers that its processes show each other, in memory that all of them map.

Each cell has one writer, and is an aligned int64, so nobody locks: a reader sees the old number or the new one. Zero
means that nothing was written yet.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prism.core.graph import Int64
from prism.net.dealing import most_lanes
from prism.net.schedule import Schedule

MOVED = ("steps", "sent", "received")
POOL = ("hits", "misses", "stalls")


class Board:
    """Columns: `started` and `ended` [sandbox], `posted` [sandbox, ops] (ns of CLOCK_MONOTONIC), `moved` [sandbox, ops,
    MOVED] (what the engine counted), `pool` [assistants, POOL]; sandbox ranks by their place in the list, and as many
    assistants as there may be (0: one for each)."""

    def __init__(self, path: Path, sandbox: int, ops: int, create: bool = False, assistants: int = 0) -> None:
        assistants = assistants or sandbox
        shapes = ((sandbox,), (sandbox,), (sandbox, ops), (sandbox, ops, len(MOVED)), (assistants, len(POOL)))
        sizes = [int(np.prod(shape)) for shape in shapes]
        length = max(sum(sizes), 1)
        cells = make_cells(path, length) if create else np.memmap(path, np.int64, "r+", shape=(length,))
        ends = np.cumsum(sizes)
        parts = (cells[end - size : end].reshape(shape) for size, end, shape in zip(sizes, ends, shapes, strict=True))
        columns: list[Int64] = [np.asarray(part) for part in parts]
        self.started, self.ended, self.posted, self.moved, self.pool = columns
        self.cells = cells
        self._shapes = shapes

    @classmethod
    def of(cls, path: Path, schedule: Schedule, create: bool = False) -> Board:
        """The board of an emulation."""
        sandbox = len(schedule.touching.sandbox)
        return cls(path, sandbox, len(schedule.touching.op), create, sandbox * most_lanes(schedule))

    def written_by(self, sandbox: Sequence[int], assistants: Sequence[int]) -> Int64:
        """Which cells are written by these sandbox ranks and these assistants, each by place in the list."""
        numbers = np.arange(len(self.cells))
        columns, at = [], 0
        for shape in self._shapes:
            size = int(np.prod(shape))
            columns.append(numbers[at : at + size].reshape(shape))
            at += size
        *of_ranks, pool = columns
        rows = [column[list(sandbox)].ravel() for column in of_ranks]
        return np.concatenate([*rows, pool[list(assistants)].ravel()]).astype(np.int64)

    @property
    def origin(self) -> int:
        """When the emulation's clock starts: as soon as all sandbox ranks have started; 0 before that."""
        return int(self.started.max()) if self.started.all() else 0


def make_cells(path: Path, length: int) -> Int64:
    """A new file of zeros, mapped, with all its room: who writes to a mapping where there is none is killed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, length * np.int64().itemsize)
    finally:
        os.close(descriptor)
    return np.memmap(path, np.int64, "r+", shape=(length,))
