"""The first scenario that a user runs, whole: what its expected summary says, and that its views can be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from prism import trace
from prism.command.main import main
from prism.core.laps import LapEnd, laps_name
from prism.core.timeline.replay import evaluate, make_plan, slow
from prism.prediction.communication import communication
from prism.result import Result
from prism.scenario import Scenario

SCENARIO = Path(__file__).parents[1] / "scenarios" / "quickstart.yaml"
LAST_STAGE = 4
"""The rank that prints the losses."""


@dataclass(frozen=True)
class Quickstart:
    """One run of the scenario, and what is expected of it."""

    out: Path
    result: Result
    expected: dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Quickstart:
    out = tmp_path_factory.mktemp("quickstart") / "out"
    assert main([str(SCENARIO), "--out", str(out), "-q"]) == 0
    expected = yaml.safe_load(SCENARIO.with_suffix(".expected.yaml").read_text())
    return Quickstart(out, Result.load(out / "result.json"), expected)


def test_the_summary_is_the_expected_one(run: Quickstart) -> None:
    result, expected = run.result, run.expected
    assert {
        "status": result.status,
        "stages": [name for name, stage in result.stages.items() if stage.status == "ok"],
        "world_size": result.world_size,
        "nodes": result.nodes,
        "ops": result.ops,
        "predicted_iterations": len(result.iteration_ns or []),
        "what_if": [variant.name for variant in result.what_if],
        "warnings": result.warnings,
    } == {key: expected[key] for key in expected if key not in ("iterations", "losses", "peak_bytes")}
    ended = [(rank.rank, rank.exit, rank.cut, rank.iterations) for rank in result.ranks]
    assert ended == [(rank, 0, False, expected["iterations"]) for rank in range(8)]


def test_losses_and_memory_are_the_expected_ones(run: Quickstart) -> None:
    printed = (run.out / "ranks" / f"{LAST_STAGE}.log").read_text()
    losses = [float(loss) for loss in re.findall(r"^iteration \d+: loss ([\d.]+)$", printed, re.MULTILINE)]
    assert losses == pytest.approx(run.expected["losses"], abs=1e-3)
    peaks = [rank.peak_bytes for rank in run.result.ranks]
    assert peaks == pytest.approx(run.expected["peak_bytes"], rel=0.01)


def test_the_course_of_memory_leads_to_the_peaks(run: Quickstart) -> None:
    for rank in run.result.ranks:
        laps = np.load(run.out / "ranks" / laps_name(rank.rank))
        assert laps["most"].max() == rank.peak_bytes
        assert (laps["end"] == LapEnd.MARK).sum() == rank.iterations
        assert laps["end"][-1] == LapEnd.END
    page = (run.out / "report.html").read_text()
    assert page.count('<g class="course') == 8, "the laps are those of the lanes"


def test_times_add_up(run: Quickstart) -> None:
    result = run.result
    spans = [(rank.compute_ns or 0) + (rank.comm_ns or 0) + (rank.wait_ns or 0) for rank in result.ranks]
    waits = [rank.wait_ns or 0 for rank in result.ranks]
    total = sum(result.iteration_ns or [])
    assert spans == [total] * 8
    assert sum(step.ns for step in result.critical_path) == total
    assert result.bubble_fraction == pytest.approx(sum(waits) / sum(spans))


def test_what_is_made_worse_ends_nowhere_earlier(run: Quickstart) -> None:
    # Single iterations may be shorter: where more of a delay falls before them than into them.
    scenario, graph = Scenario.load(SCENARIO), trace.read(run.out / "graph.prism").graph
    hot, half = scenario.what_if
    assert hot.slow is not None
    plan, durations = make_plan(graph), graph.nodes["duration"]
    base, slower = (
        communication(graph, scenario, network).costs.total
        for network in (scenario.network, half.network.applied(scenario.network))
    )
    ends = evaluate(plan, durations, base).node_end
    hotter = evaluate(plan, slow(graph, hot.slow.ranks, hot.slow.factor), base).node_end
    assert (hotter >= ends).all()
    assert (hotter <= hot.slow.factor * ends + len(graph.nodes)).all(), "each duration is rounded"
    assert (evaluate(plan, durations, slower).node_end >= ends).all()
    assert [variant.slowdown for variant in run.result.what_if] == pytest.approx([1.1, 1.1], abs=0.25)


def test_the_timeline_can_be_read(run: Quickstart) -> None:
    trace = Trace()
    trace.ParseFromString((run.out / "timeline.pftrace").read_bytes())
    processes = [p.track_descriptor.process for p in trace.packet if p.track_descriptor.HasField("process")]
    assert len({process.pid for process in processes}) == len(processes) > 0


def test_the_report_needs_nothing_from_elsewhere(run: Quickstart) -> None:
    html = (run.out / "report.html").read_text()
    assert "quickstart" in html
    assert re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=|<link\b|@import|url\((?!['\"]?data:)", html) == []
