"""Ranks of a capture that are stopped from outside while they wait, as for the driver's checkpoint, notice nothing."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.gpu_many import PROGRAM
from benchmarks.gpu_runs import read, scenario
from benchmarks.memory import ranks_below
from benchmarks.parking import Parked

WORLD, STEPS = 4, 4


def test_they_go_on_with_the_same_losses(tmp_path: Path) -> None:
    paused = tmp_path / "paused"
    scenario(tmp_path, PROGRAM, [STEPS, paused], WORLD, "devices: {kind: cpu, slots: 2}\nstages: [capture]\n")
    command: list[str | Path] = [sys.executable, "-m", "prism.coordinator", tmp_path / "scenario.yaml"]
    command += ["--out", tmp_path / "run", "-q"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        while not paused.exists() and run.poll() is None:
            time.sleep(0.05)
        first, *others = sorted(ranks_below("self"))  # the first is the one that pauses
        with contextlib.ExitStack() as parked:
            for rank in others:
                try:
                    parked.callback(Parked(rank, but=first).let_go)
                except PermissionError:
                    paused.unlink()
                    pytest.skip("this process may not trace others")
            paused.unlink()
            time.sleep(0.5)  # the first goes on, and waits for them
        assert run.communicate()[1] == ""
    assert run.returncode == 0
    losses = [report["loss"] for report in read(tmp_path / "run" / "ranks", WORLD, "").reports.values()]
    assert losses == [losses[0]] * WORLD
    assert len(losses[0]) == STEPS
