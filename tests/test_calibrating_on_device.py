"""Calibration on a GPU without one: the whole way of a rank that is answered while its device is timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from prism import coordinator
from prism.core.graph import NodeKind
from prism.net.messages import Setup
from prism.scenario import Calibrate, Capture
from prism.stages import staging
from tests.running import predict, scenario

JOBS = Path(__file__).with_name("jobs")
PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture(autouse=True)
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A calibration takes the way of a GPU, after a capture that took that of a CPU."""
    plain = coordinator.stage_setup

    def setup(given: Any, folder: Any, stage: str, iterations: int) -> Setup:
        if stage != "calibrate":
            return plain(given, folder, stage, iterations)
        with monkeypatch.context() as within:
            within.setattr(staging, "device_kind", lambda _: "cuda")
            made = plain(given, folder, stage, iterations)
        program = msgspec.structs.replace(made.program, preload=("tests.gpu.fake_answered",))
        return msgspec.structs.replace(made, device="cuda", program=program)

    monkeypatch.setattr(coordinator, "stage_setup", setup)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))


@pytest.mark.parametrize("job", ["ddp", "fsdp2", "tp", "pp", "moe"])
@pytest.mark.parametrize("payloads", ["all", "control"])
def test_a_job_is_timed_to_its_end(job: str, payloads: Any, tmp_path: Path) -> None:
    given = scenario(
        JOBS / f"job_{job}.py", ("4",), 2, semantics="nccl", capture=Capture(payloads=payloads),
        calibrate=Calibrate(warmup=1),
    )  # fmt: skip
    run = predict(given, tmp_path / "out")
    assert run.result.diagnosis is None
    assert run.graph is not None
    nodes = run.graph.nodes
    assert (nodes["duration"][nodes["kind"] == NodeKind.COMPUTE] > 0).mean() > 0.5
    assert run.result.iteration_ns is not None
    assert len(run.result.iteration_ns) == 3
    assert np.all(np.array(run.result.iteration_ns) > 0)


def test_sums_that_steer_a_program_are_the_recorded_ones(tmp_path: Path) -> None:
    given = scenario(PROGRAMS / "until_all_are_done.py", (), 2, semantics="nccl", capture=Capture(payloads="control"))
    run = predict(given, tmp_path / "out")
    logs = [run.folder / "ranks" / f"{rank}{stage}.log" for rank in range(2) for stage in ("", ".calibrate")]
    captured, calibrated = ([log.read_text() for log in logs[first::2]] for first in range(2))
    assert calibrated == captured
