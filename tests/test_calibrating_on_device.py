"""Calibration on a GPU without one: the whole way of a rank that is answered while its device is timed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from prism import coordinator
from prism.core.graph import Graph, NodeKind
from prism.core.measuring.lead import Timings
from prism.errors import ScenarioError
from prism.folder import Folder
from prism.net.messages import Setup
from prism.result import Result
from prism.scenario import Calibrate, Capture, Link, Network, Scenario
from prism.stages import staging
from tests.running import scenario

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


async def predicted(given: Scenario, out: Path) -> tuple[Graph, Result]:
    """By workers of its own, which find what is preloaded."""
    async with coordinator.Coordinator(given, out) as run:
        graph = await run.calibrate(await run.capture())
        return graph, run.replay(graph)


@pytest.mark.parametrize("job", ["ddp", "fsdp2", "tp", "pp", "moe"])
@pytest.mark.parametrize("payloads", ["all", "control"])
def test_a_job_is_timed_to_its_end(job: str, payloads: Any, tmp_path: Path) -> None:
    given = scenario(
        JOBS / f"job_{job}.py", ("4",), 2, semantics="nccl", capture=Capture(payloads=payloads),
        calibrate=Calibrate(warmup=1),
    )  # fmt: skip
    graph, result = asyncio.run(predicted(given, tmp_path / "out"))
    assert result.diagnosis is None
    assert (graph.nodes["duration"][graph.nodes["kind"] == NodeKind.COMPUTE] > 0).mean() > 0.5
    assert result.iteration_ns is not None
    assert len(result.iteration_ns) == 3
    assert np.all(np.array(result.iteration_ns) > 0)


def test_sums_that_steer_a_program_are_the_recorded_ones(tmp_path: Path) -> None:
    given = scenario(PROGRAMS / "until_all_are_done.py", (), 2, semantics="nccl", capture=Capture(payloads="control"))
    asyncio.run(predicted(given, tmp_path / "out"))
    logs = [tmp_path / "out" / "ranks" / f"{rank}{stage}.log" for rank in range(2) for stage in ("", ".calibrate")]
    captured, calibrated = ([log.read_text() for log in logs[first::2]] for first in range(2))
    assert calibrated == captured


def test_a_calibration_that_is_used_again_holds_in_the_network_as_it_is_by_then(tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = scenario(
        JOBS / "job_tp.py", ("4",), 2, semantics="nccl", calibrate=Calibrate(warmup=1), network=Network(model="none")
    )
    graph, _ = asyncio.run(predicted(given, out))
    durations = graph.nodes["duration"].astype(np.int64)
    timings = Timings(durations, durations // 2, np.zeros(len(durations), bool))
    Folder(out).save_timings(timings)

    async def again(network: Network) -> Graph:
        changed = msgspec.structs.replace(given, network=network)
        async with coordinator.Coordinator(changed, out, resume=True) as run:
            return run.load_graph("calibrate")

    slow = Network(intra_node=Link(bandwidth=10**6, latency=0))
    lasts = [asyncio.run(again(network)).nodes["duration"].sum() for network in (Network(model="none"), slow)]
    assert durations.sum() >= lasts[0] > lasts[1]
    assert Folder(out).load_graph().nodes["duration"].sum() == lasts[1]
    whole = Folder(out).timings.read_bytes()
    for damaged in (b"", b"PK", whole[:300] + bytes(100) + whole[400:]):
        Folder(out).timings.write_bytes(damaged)
        with pytest.raises(ScenarioError, match=r"timings\.npz cannot be read .* run the stage calibrate again"):
            asyncio.run(again(slow))
