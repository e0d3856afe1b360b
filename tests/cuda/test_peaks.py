"""Laps of device memory on a real GPU: what the program reads of its peaks, and what a capture leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism.core.graph import NodeKind
from prism.core.laps import LapEnd, laps_name
from prism.scenario import Devices
from tests.running import capture, scenario

ROOT = Path(__file__).parents[2]
JOB = ROOT / "tests" / "jobs" / "job_ddp.py"

pytestmark = pytest.mark.gpu


def seen(*arguments: str) -> tuple[Any, Any]:
    """What the program read, and its laps with the peak of the run, where it was lapped."""
    command = [sys.executable, "-m", "tests.cuda.peaks_program", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    views, laps = map(json.loads, done.stdout.splitlines())
    return views, laps


def test_a_program_reads_what_it_would_read_without_laps() -> None:
    plain, _ = seen()
    lapped, (laps, peak) = seen("laps")
    assert lapped == plain
    assert max(laps) == peak > laps[-1]


def test_a_capture_leaves_the_course_of_memory(tmp_path: Path) -> None:
    run = capture(scenario(JOB, ("3",), 2, devices=Devices(kind="cuda"), semantics="auto"), tmp_path / "out")
    assert run.graph is not None
    for rank in run.result.ranks:
        laps = np.load(run.folder / "ranks" / laps_name(rank.rank))
        low, high = run.graph.lane_ptr[rank.rank : rank.rank + 2].tolist()
        kinds = run.graph.nodes["kind"][low:high].tolist()
        ends = {NodeKind.POST: LapEnd.POST, NodeKind.MARK: LapEnd.MARK}
        assert laps["end"].tolist() == [*(ends[kind] for kind in kinds if kind in ends), LapEnd.END]
        assert laps["most"].max() == rank.peak_bytes
        assert laps["most"].min() < laps["most"].max()
