"""Ranks timed on a real GPU beside the communication that they would have, against those that are answered at once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from prism.core.emulation.sandboxed import Sandboxed
from prism.core.events import Timed
from prism.core.graph import Graph, Int64, NodeKind
from prism.gpu.emulation.device.built import library_path
from prism.scenario import Calibrate, Devices, Scenario
from tests.running import Run, predict, references, scenario

TESTS = Path(__file__).parents[1]
DETERMINISTIC = TESTS.parent / "benchmarks" / "programs" / "deterministically.py"
"""Runs a job by algorithms that give the same bits each time."""

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(library_path() is None, reason="prism.gpu._device is not built"),
]


def on_gpu(answers: str, script: Path, *args: str) -> Scenario:
    return scenario(
        script, args, 2, semantics="auto", devices=Devices(kind="cuda"),
        calibrate=Calibrate(warmup=1, answers=answers),  # type: ignore[arg-type]
    )  # fmt: skip


def longest_segments(graph: Graph) -> Int64:
    """The longest segment of each iteration of rank 0 after the first: its place in the lane."""
    lane = graph.nodes[: graph.lane_ptr[1]]
    compute = np.where(lane["kind"] == NodeKind.COMPUTE, lane["duration"], -1)
    marks = np.flatnonzero(lane["kind"] == NodeKind.MARK)
    return np.array([begin + np.argmax(compute[begin:end]) for begin, end in pairwise(marks)])


def losses(run: Run, stage: str) -> list[list[float]]:
    logs = [run.folder / "ranks" / f"{rank}{stage}.log" for rank in range(2)]
    return [one["loss"] for one in references([log.read_text() for log in logs])]


def test_a_job_is_timed_as_it_is_when_it_is_answered_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Timed] = []
    hear = Sandboxed.timed
    monkeypatch.setattr(Sandboxed, "timed", lambda self, event: (told.append(event), hear(self, event))[1])
    fast, paced = (
        predict(on_gpu(answers, DETERMINISTIC, str(TESTS / "jobs" / "job_ddp.py"), "4"), tmp_path / answers)
        for answers in ("fast", "paced")
    )
    assert fast.graph is not None
    assert paced.graph is not None
    for name in ("kind", "ref"):
        assert np.array_equal(fast.graph.nodes[name], paced.graph.nodes[name])
    assert np.array_equal(longest_segments(fast.graph), longest_segments(paced.graph))
    for rank in range(2):
        segments = np.array([ns for event in told if event.rank == rank for ns in event.durations])
        lane = paced.graph.nodes[paced.graph.lane_ptr[rank] : paced.graph.lane_ptr[rank + 1]]
        steps = np.isin(lane["kind"], (NodeKind.POST, NodeKind.WAIT, NodeKind.MARK)).sum()
        assert len(segments) == steps
        used = np.argmax(segments >= 0)  # before its first step on the device nothing was timed there
        assert (segments[used:] >= 0).all()
    for captured, emulated in zip(losses(paced, ""), losses(paced, ".emulate"), strict=True):
        assert len(emulated) == 4
        assert emulated[0] == captured[0]  # the sums of gradients after it are others
    assert paced.result.iteration_ns is not None
    assert len(paced.result.iteration_ns) == 3


def test_sums_that_steer_a_program_are_the_recorded_ones(tmp_path: Path) -> None:
    run = predict(on_gpu("paced", TESTS / "programs" / "until_all_are_done.py"), tmp_path / "out")
    for rank in range(2):
        captured, emulated = (
            (run.folder / "ranks" / name).read_text() for name in (f"{rank}.log", f"{rank}.emulate.log")
        )
        assert emulated == captured
        assert len(captured.splitlines()) == 4
