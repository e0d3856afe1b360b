"""What a rank notes of its memory while it runs, and leaves beside its log."""

from __future__ import annotations

import contextlib
from array import array
from pathlib import Path

import numpy as np

from prism.core.laps import LAP, LapEnd, laps_name
from prism.gpu.meter.memory import MemoryMeter


class Laps:
    """The laps of one rank; nine bytes each, in memory until the rank ends."""

    def __init__(self, rank: int, folder: Path, meter: MemoryMeter) -> None:
        self._path = folder / laps_name(rank)
        self._meter = meter
        self._ends = array("B")
        self._most = array("q")

    def note(self, end: LapEnd) -> None:
        """A lap ends here."""
        most = self._meter.lap()
        if most is not None:
            self._ends.append(end)
            self._most.append(most)

    def save(self) -> None:
        """The last lap ends here: leave what was noted, if there is room for it."""
        self.note(LapEnd.END)
        laps = np.empty(len(self._ends), LAP)
        laps["end"], laps["most"] = self._ends, self._most
        with contextlib.suppress(OSError):  # a report can do without
            np.save(self._path, laps)
