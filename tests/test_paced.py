"""Calibration beside the communication that a slice would have: same results, same structure, other times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prism.core.graph import NodeKind
from prism.scenario import Calibrate
from tests.running import predict, references, scenario

JOBS = Path(__file__).with_name("jobs")


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
