"""A column that grows: numbers are appended to it many at a time, and found in one array."""

from __future__ import annotations

import numpy as np

from prism.core.graph import Int64


class Growing:
    """An int64 column to which is appended; where it has to move its room doubles."""

    def __init__(self) -> None:
        self._room = np.empty(1024, np.int64)
        self._filled = 0

    def __len__(self) -> int:
        return self._filled

    @property
    def values(self) -> Int64:
        """What has been appended, until more is."""
        return self._room[: self._filled]

    def append(self, values: Int64) -> None:
        filled = self._filled + len(values)
        if filled > len(self._room):
            room = np.empty(2 * filled, np.int64)
            room[: self._filled] = self.values
            self._room = room
        self._room[self._filled : filled] = values
        self._filled = filled
