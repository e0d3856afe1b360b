"""The log of measured slices as a calibration uses it: what one run has written, the next one knows."""

from __future__ import annotations

from pathlib import Path

from prism.core.events import Clocked, ClockState
from prism.core.measuring.segments import Segments
from prism.stages.slices import SliceLog


def test_a_resumed_calibration_knows_the_clocks_of_what_it_does_not_repeat(tmp_path: Path) -> None:
    seen = {
        rank: Clocked(rank=rank, before=ClockState(1980, 80, 34), after=ClockState(1785, 700, 51), throttled=throttled)
        for rank, throttled in ((0, ("power cap",)), (1, ()), (2, ()))
    }
    measured = [Segments([1]), Segments([2], [(0, 7)])]
    log = SliceLog(tmp_path / "slices.log", "of this")
    log.add("fast", [0, 1], 0, measured, seen)
    again = SliceLog(tmp_path / "slices.log", "of this")
    assert again.find("fast", [0, 1], 0) == measured
    assert again.clocks == {0: seen[0], 1: seen[1]}, "of the ranks of the slice, and no others"
    assert SliceLog(tmp_path / "slices.log", "of another").clocks == {}
