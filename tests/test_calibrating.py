"""Calibration of samples and of first iterations: who runs, for how long, and what the others get.

The programs run in virtual time (benchmarks/programs/virtual_time.py), so that what is measured is what they say.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.coordinator import Coordinator
from prism.core.graph import Graph, NodeKind, OpKind
from prism.core.measuring.segments import Segments
from prism.core.timeline.replay import evaluate, make_plan
from prism.errors import ScenarioError
from prism.result import CalibrationResult, Result, Spread
from prism.scenario import Calibrate, Capture, Fault, Moment, Network, Program, Scenario, World
from prism.stages.calibrating import Measurements
from tests.core.jobs import MS, Job
from tests.running import Run, predict, scenario

ROOT = Path(__file__).parents[1]
SLEEPS = ROOT / "tests" / "programs" / "sleeps.py"
SIZE, ITERATIONS = 8, 6
SAMPLES = [2, 4]


def planned(ms: str, **blocks: Any) -> Scenario:
    """A scenario of sleeps.py in virtual time; times without the network."""
    args = (str(SLEEPS), ms)
    blocks.setdefault("calibrate", Calibrate(warmup=1, share="signature"))
    return scenario(
        ROOT / "benchmarks" / "programs" / "virtual_time.py", args, SIZE, network=Network(model="none"), **blocks
    )


def ran(run: Run) -> dict[int, list[int]]:
    """The steps that each rank ran in calibration, by the ranks that ran, from their logs."""
    logs = {rank: run.folder / "ranks" / f"{rank}.calibrate.log" for rank in range(SIZE)}
    return {
        rank: [int(line.split()[1]) for line in log.read_text().splitlines()]
        for rank, log in logs.items()
        if log.exists()
    }


def calibration(run: Run) -> CalibrationResult:
    assert run.result.calibration is not None
    return run.result.calibration


# -- share: signature ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ms", ["20", "20 + 7 * step"])
def test_samples_of_ranks_that_do_the_same_predict_what_all_do(ms: str, tmp_path: Path) -> None:
    shared = predict(planned(ms), tmp_path / "shared")
    alone = predict(planned(ms, calibrate=Calibrate(warmup=1)), tmp_path / "alone")
    assert list(ran(shared)) == SAMPLES == calibration(shared).measured_ranks
    assert list(ran(alone)) == list(range(SIZE)) == calibration(alone).measured_ranks
    assert shared.result.warnings == []
    assert shared.result.iteration_ns == alone.result.iteration_ns
    assert [rank.compute_ns for rank in shared.result.ranks] == [rank.compute_ns for rank in alone.result.ranks]
    assert (calibration(shared).difference, calibration(alone).difference) == (0, None)


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (
            "20 + 5 * (rank == 4)",
            "ranks 2 and 4 differ by more than 5 % in 5 of 5 iterations, most in iteration 1 (25.0 ms and 30.0 ms)",
        ),
        (  # on every rank the same lengths, in another order
            "20 + 10 * ((step + rank) % 3)",
            "ranks 2 and 4 differ by more than 5 % in 5 of 5 iterations, most in iteration 1 (25.0 ms and 45.0 ms)",
        ),
    ],
)
def test_where_samples_differ_all_of_their_class_are_measured(ms: str, words: str, tmp_path: Path) -> None:
    run = predict(planned(ms), tmp_path / "out")
    assert list(ran(run)) == list(range(SIZE)) == calibration(run).measured_ranks
    (warning,) = run.result.warnings
    assert (warning.kind, warning.ranks) == ("not_alike", list(range(SIZE)))
    assert warning.summary == (
        f"ranks 0-7 do the same operations and do not compute alike, so all of them were measured: {words}"
    )
    assert (
        run.result.iteration_ns
        == predict(planned(ms, calibrate=Calibrate(warmup=1)), tmp_path / "a").result.iteration_ns
    )


def test_a_rank_at_fault_is_measured_itself(tmp_path: Path) -> None:
    slow = Fault(rank=6, at=Moment(iteration=3), do="slow", factor=2)
    run = predict(planned("20", faults=(slow,)), tmp_path / "out")
    assert calibration(run).measured_ranks == [1, 3, 6], "of the other seven, two samples"
    assert run.result.warnings == []
    assert run.result.iteration_ns == [25 * MS, 25 * MS, 50 * MS, 50 * MS, 50 * MS]
    assert [straggler.rank for straggler in run.result.stragglers] == [6]


# -- calibrate.iterations --------------------------------------------------------------------------------------------


def test_the_iterations_that_did_not_run_take_the_median(tmp_path: Path) -> None:
    run = predict(planned("20 + 2 * min(step, 3)", calibrate=Calibrate(iterations=4, warmup=1)), tmp_path / "out")
    assert ran(run) == {rank: [0, 1, 2, 3] for rank in range(SIZE)}
    assert run.result.iteration_ns == [27 * MS, 29 * MS, 31 * MS, 29 * MS, 29 * MS]
    assert [rank.iterations for rank in run.result.ranks] == [ITERATIONS] * SIZE
    assert (calibration(run).segments, calibration(run).samples) == (3 * SIZE, 3 * 3 * SIZE)


def test_samples_may_run_the_first_iterations_only(tmp_path: Path) -> None:
    chosen = Calibrate(iterations=2, warmup=1, share="signature")
    run = predict(planned("20 + 5 * step", calibrate=chosen, capture=Capture(iterations=4)), tmp_path / "out")
    assert ran(run) == {rank: [0, 1] for rank in SAMPLES}
    assert run.result.iteration_ns == [30 * MS] * 3


def test_more_iterations_than_were_captured_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ScenarioError, match=r"scenario: \$\.calibrate\.iterations: 7 is more than the 6 that were captured"
    ):
        predict(planned("1", calibrate=Calibrate(iterations=7)), tmp_path / "out")


# -- what is told ----------------------------------------------------------------------------------------------------


def test_the_result_says_how_sure_it_is(tmp_path: Path) -> None:
    run = predict(planned("20 + (0, 0, 1, 2, 3, 4)[step] + 0.5 * (rank == 4)"), tmp_path / "out")
    found = calibration(run)
    # In iterations 1 to 5 the first segment lasts 20 to 24 ms: quartiles 21 and 23. The other two always last the same.
    assert found.spread == Spread(p50=2 / 22.5, p95=2 / 22, p99=2 / 22)
    assert found.difference == 0.5 / 27
    assert (found.segments, found.samples, found.outliers) == (6, 30, 0)


def test_it_is_told_again_where_the_stage_is_used_again(tmp_path: Path) -> None:
    given = planned("20 + 5 * (rank == 4)")
    run = predict(given, tmp_path / "out")

    async def again() -> Result:
        async with Coordinator(given, tmp_path / "out", resume=True) as resumed:
            return resumed.replay(await resumed.calibrate(await resumed.capture()))

    result = asyncio.run(again())
    assert [stage.status for stage in result.stages.values()] == ["reused", "reused", "ok"]
    assert result.calibration == run.result.calibration
    assert result.warnings == run.result.warnings != []


# -- one consistent timeline -----------------------------------------------------------------------------------------


@st.composite
def replicated(draw: st.DrawFn) -> Graph:
    """Ranks that all do the same: sums, and messages round a ring; some iterations do something else than others."""
    job = Job(draw(st.sampled_from([2, 3, 20])))
    actions = st.lists(st.sampled_from(["compute", "sum", "pass on", "wait"]), max_size=6)
    kinds = [draw(actions), draw(actions)]
    iterations = draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=6))
    for rank in range(job.world_size):
        for body in iterations:
            _iteration(job, rank, body)
    return job.graph()


def _iteration(job: Job, rank: int, body: list[str]) -> None:
    size, posted = job.world_size, list[Any]()
    for action in [*body, "wait"]:
        job.compute(rank, 0)
        match action:
            case "sum":
                posted.append(job.post(rank, OpKind.ALL_REDUCE, 8))
            case "pass on":
                job.send(rank, (rank + 1) % size, 8)
                posted.append(job.recv(rank, (rank - 1) % size, 8))
            case "wait":
                job.wait(rank, *posted)
                posted.clear()
    job.mark(rank)


def segments(graph: Graph, rank: int, iterations: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The segments of a rank in its first so many iterations (0: in all)."""
    mine = graph.node_rank() == rank
    marks = np.flatnonzero(mine & (graph.nodes["kind"] == NodeKind.MARK))
    found: np.ndarray[Any, np.dtype[np.int64]] = np.flatnonzero(mine & (graph.nodes["kind"] == NodeKind.COMPUTE))
    return found[found < marks[iterations - 1]]


@given(replicated(), st.sampled_from(["none", "signature"]), st.none() | st.just(2), st.booleans(), st.integers(0, 99))
def test_what_was_measured_apart_becomes_one_consistent_timeline(
    graph: Graph, share: Any, iterations: int | None, even: bool, seed: int
) -> None:
    calibrate = Calibrate(share=share, iterations=iterations, warmup=1)
    given = Scenario(name="j", program=Program(module="j"), world=World(size=graph.world_size), calibrate=calibrate)
    measurements, truth = Measurements(graph, given), np.random.default_rng(seed).integers(0, 9 * MS, len(graph.nodes))
    truth = np.full_like(truth, MS) if even else truth
    run: list[int] = []
    for slices in measurements.rounds():
        for ranks in slices:
            run += ranks
            for rank in ranks:
                measured = truth[segments(graph, rank, measurements.iterations(ranks))]
                measurements.add(rank, Segments(measured.tolist()))
    timings, found = measurements.conclude()
    durations = timings.durations
    assert sorted(run) == found.measured_ranks, "nobody runs twice"
    assert len(run) < graph.world_size or share == "none" or not even or graph.world_size == 2
    computing = graph.nodes["kind"] == NodeKind.COMPUTE
    assert (durations[computing] >= truth[computing].min(initial=0)).all()
    assert (durations[computing] <= truth[computing].max(initial=0)).all()
    assert (durations[~computing] == 0).all()
    timeline = evaluate(make_plan(graph), durations, np.full(len(graph.ops), 7))
    for op in range(len(graph.ops)):
        posts = graph.posts[graph.post_ptr[op] : graph.post_ptr[op + 1]]
        assert timeline.op_start[op] >= timeline.node_end[posts].max()
    for node in np.flatnonzero(graph.nodes["kind"] == NodeKind.WAIT):
        row = graph.nodes["ref"][node]
        ops = graph.wait_ops[graph.wait_ptr[row] : graph.wait_ptr[row + 1]]
        assert timeline.node_end[node] >= timeline.op_end[ops].max(initial=0)
