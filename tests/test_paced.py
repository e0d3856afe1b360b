"""Calibration beside the communication that a slice would have: same results, same structure, other times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prism.core.graph import NodeKind
from prism.scenario import Calibrate, Fault, Moment
from tests.running import predict, references, scenario

JOBS = Path(__file__).with_name("jobs")
PROGRAMS = Path(__file__).with_name("programs")


@pytest.mark.parametrize("kind", ["ddp", "pp", "moe"])
def test_paced_slices_get_what_was_recorded(kind: str, tmp_path: Path) -> None:
    given = scenario(JOBS / f"job_{kind}.py", ("3",), 4, calibrate=Calibrate(warmup=1, answers="paced"))
    run = predict(given, tmp_path / "out")
    assert run.graph is not None
    assert run.result.iteration_ns is not None
    assert len(run.result.iteration_ns) == 2
    compute = run.graph.nodes["duration"][run.graph.nodes["kind"] == NodeKind.COMPUTE]
    assert np.count_nonzero(compute) > len(compute) / 2
    ranks = tmp_path / "out" / "ranks"
    for rank in range(4):
        captured, emulated = (
            references([(ranks / name).read_text()])[0]["loss"] for name in (f"{rank}.log", f"{rank}.emulate.log")
        )
        assert captured == emulated


def test_paced_slices_run_as_many_iterations_as_the_fast_ones_did(tmp_path: Path) -> None:
    """Rank 1 is another from iteration 3 on, so that two iterations are not enough for what comes then."""
    slow = Fault(rank=1, at=Moment(iteration=3), do="slow", factor=2)
    calibrate = Calibrate(iterations=2, warmup=1, answers="paced")
    run = predict(scenario(PROGRAMS / "sleeps.py", ("1",), 2, calibrate=calibrate, faults=(slow,)), tmp_path / "out")
    steps = [
        [(run.folder / "ranks" / f"{rank}.{stage}.log").read_text() for rank in range(2)]
        for stage in ("calibrate", "emulate")
    ]
    assert steps[0] == steps[1]
    assert [text.count("step ") for text in steps[0]] == [4, 4]
