"""The Kineto traces: what HolisticTraceAnalysis needs of them, and that it finds in them what PRISM found."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report.tiny import tiny_job

from prism.core.graph import Graph, OpKind, Stream
from prism.core.timeline.replay import evaluate, make_plan
from prism.report.kineto import write_kineto
from tests.core.jobs import MS, Job, data_parallel, pipeline, two_dimensional

Event = dict[str, Any]


def written(folder: Path, graph: Graph, cost: int = 10_000) -> list[list[Event]]:
    """The events of each rank."""
    costs = np.full(len(graph.ops), cost, np.int64)
    write_kineto(folder, graph, evaluate(make_plan(graph), graph.nodes["duration"], costs))
    return [read(folder, rank) for rank in range(graph.world_size)]


def read(folder: Path, rank: int) -> list[Event]:
    events: list[Event] = json.loads((folder / f"rank{rank}.json").read_text())["traceEvents"]
    return events


def of(events: list[Event], cat: str) -> list[Event]:
    return [event for event in events if event.get("cat") == cat]


def spans(events: list[Event]) -> list[tuple[str, int, int]]:
    return [(event["name"], event["ts"], event["dur"]) for event in events]


def test_a_file_says_which_rank_it_is_where_readers_look_for_it(tmp_path: Path) -> None:
    write_kineto(tmp_path, *tiny_job())
    for rank in (0, 1):
        first = (tmp_path / f"rank{rank}.json").read_text().splitlines()[0]
        found = re.search(r'"rank":\s+(\d+)', first)
        assert found is not None
        assert int(found[1]) == rank


def test_kernels_are_computing_and_ops_from_a_ranks_post_to_their_end(tmp_path: Path) -> None:
    write_kineto(tmp_path, *tiny_job())
    assert spans(of(read(tmp_path, 0), "kernel")) == [
        ("compute", 0, 10),
        ("ncclDevKernel_AllReduce", 10, 15),
        ("ncclDevKernel_SendRecv", 25, 15),
    ]
    assert spans(of(read(tmp_path, 1), "kernel")) == [
        ("compute", 0, 20),
        ("ncclDevKernel_AllReduce", 20, 5),
        ("compute", 25, 5),
        ("ncclDevKernel_SendRecv", 30, 10),
    ]


def test_a_step_is_an_iteration_and_one_more_is_there_to_be_dropped(tmp_path: Path) -> None:
    job = Job(1)
    for ns in (40_000, 60_000):
        job.compute(0, ns)
        job.mark(0)
    steps = spans(of(written(tmp_path, job.graph())[0], "user_annotation"))
    assert steps == [("ProfilerStep#0", -1, 39), ("ProfilerStep#1", 38, 62), ("ProfilerStep#2", 100, 1)], (
        "from call to call"
    )


def test_a_rank_without_marks_has_no_steps(tmp_path: Path) -> None:
    job = Job(1)
    job.compute(0, MS)
    assert of(written(tmp_path, job.graph())[0], "user_annotation") == []


def waits(events: list[Event]) -> list[tuple[str, str]]:
    """For each kernel that waits for one of another stream: that one's name, and its own."""
    kernels, runtime = of(events, "kernel"), of(events, "cuda_runtime")
    launched = {kernel["args"]["correlation"]: kernel for kernel in kernels}
    order = [call["args"]["correlation"] for call in sorted(runtime, key=lambda call: call["ts"])]
    found = []
    for sync in of(events, "cuda_sync"):
        args = sync["args"]
        recorded = order[: order.index(args["wait_on_cuda_event_record_corr_id"])]
        before = [launched[c] for c in recorded if c in launched and launched[c]["tid"] == args["wait_on_stream"]]
        after = [launched[c] for c in order[order.index(args["correlation"]) :] if c in launched]
        found.append((before[-1]["name"], next(k for k in after if k["tid"] == sync["tid"])["name"]))
    return found


def test_kernels_wait_for_the_streams_that_they_go_on_after(tmp_path: Path) -> None:
    write_kineto(tmp_path, *tiny_job())
    ring, message = "ncclDevKernel_AllReduce", "ncclDevKernel_SendRecv"
    assert waits(read(tmp_path, 0)) == [("compute", ring), (ring, message)]
    assert waits(read(tmp_path, 1)) == [("compute", ring), (ring, "compute"), ("compute", message)]


def test_a_wait_that_blocks_nobody_is_no_cause(tmp_path: Path) -> None:
    job = Job(2)
    for rank in (0, 1):
        handle = job.post(rank, OpKind.ALL_REDUCE, 4)
        job.compute(rank, 50_000)
        job.wait(rank, handle)
        job.compute(rank, 10_000)
    assert waits(written(tmp_path, job.graph())[0]) == []


def test_streams_of_a_rank_wait_for_one_another(tmp_path: Path) -> None:
    job = Job(1)
    job.compute(0, 20_000)
    event = job.record(0)
    job.lane(0, Stream.COMPUTE)
    job.wait_event(0, event)
    job.compute(0, 10_000)
    (events,) = written(tmp_path, job.graph())
    assert waits(events) == [("compute", "compute")]
    assert [kernel["tid"] for kernel in of(events, "kernel")] == [0, 1]


JOBS = [data_parallel(4), pipeline(4, 6), two_dimensional(2, 3)]


@pytest.mark.parametrize("graph", JOBS)
def test_the_host_calls_one_at_a_time_and_each_launch_before_its_kernel(tmp_path: Path, graph: Graph) -> None:
    for events in written(tmp_path, graph):
        calls = of(events, "cuda_runtime")
        assert all(one["ts"] + one["dur"] <= other["ts"] for one, other in pairwise(calls))
        begun = {call["args"]["correlation"]: call["ts"] for call in calls}
        assert len(begun) == len(calls)
        assert all(begun[kernel["args"]["correlation"]] < kernel["ts"] for kernel in of(events, "kernel"))


@pytest.mark.parametrize("graph", JOBS)
def test_kernels_of_one_stream_never_overlap(tmp_path: Path, graph: Graph) -> None:
    for events in written(tmp_path, graph):
        kernels = sorted(of(events, "kernel"), key=lambda kernel: (kernel["tid"], kernel["ts"]))
        same = [(one, other) for one, other in pairwise(kernels) if one["tid"] == other["tid"]]
        assert all(one["ts"] + one["dur"] <= other["ts"] for one, other in same)


def test_equal_jobs_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_kineto(tmp_path / name, *tiny_job())
    assert (tmp_path / "one" / "rank1.json").read_bytes() == (tmp_path / "two" / "rank1.json").read_bytes()


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("graph", JOBS)
def test_holistic_trace_analysis_finds_what_prism_found(tmp_path: Path, graph: Graph) -> None:
    reason = "HolisticTraceAnalysis is not installed; it wants pandas < 3, so give it an environment of its own"
    analysis = pytest.importorskip("hta.trace_analysis", reason=reason)
    ranks = written(tmp_path, graph)
    found = analysis.TraceAnalysis(trace_dir=str(tmp_path))
    times = found.get_temporal_breakdown(visualize=False).set_index("rank")
    for rank, events in enumerate(ranks):
        computing = sum(kernel["dur"] for kernel in of(events, "kernel") if kernel["name"] == "compute")
        assert times.loc[rank, "compute_time(us)"] == computing
        path, done = found.critical_path_analysis(rank=rank, annotation="ProfilerStep", instance_id=1)
        assert done
        assert path.get_critical_path_breakdown()["duration"].sum() == pytest.approx(step_length(events, 1), abs=5)


def step_length(events: list[Event], number: int) -> int:
    """From the start of a step to the end of all that was launched in it, such as messages that nobody waits for."""
    (step,) = (event for event in events if event["name"] == f"ProfilerStep#{number}")
    end = step["ts"] + step["dur"]
    calls = {c["args"]["correlation"] for c in of(events, "cuda_runtime") if step["ts"] <= c["ts"] < end}
    launched = [kernel for kernel in of(events, "kernel") if kernel["args"]["correlation"] in calls]
    return max(end, *(kernel["ts"] + kernel["dur"] for kernel in launched)) - int(step["ts"])
