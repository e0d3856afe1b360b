"""What a timeline is said to mean, on jobs whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.graph import Graph, OpKind, Stream
from prism.core.timeline.analysis import Analysis, Step, analyse
from prism.core.timeline.replay import evaluate, make_plan, slow
from tests.core.jobs import MS, Job, data_parallel, expert_parallel, pipeline, two_dimensional


def analysed(graph: Graph, cost: int = 0, warmup: int = 0, durations: np.ndarray | None = None) -> Analysis:
    durations = graph.nodes["duration"] if durations is None else durations
    costs = np.full(len(graph.ops), cost, np.int64)
    return analyse(graph, evaluate(make_plan(graph), durations, costs), warmup)


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 4), (4, 12)])
def test_a_gpipe_bubble_is_what_the_paper_says(stages: int, micro_batches: int) -> None:
    found = analysed(pipeline(stages, micro_batches), warmup=1)
    assert found.bubble_fraction == pytest.approx((stages - 1) / (micro_batches + stages - 1))
    assert found.iteration_ns == [3 * MS * (micro_batches + stages - 1)] * 2


def test_waiting_for_a_straggler_is_wait_and_what_follows_is_comm() -> None:
    job = Job(2)
    for rank, ns in ((0, 100), (1, 300)):
        job.compute(rank, ns)
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 4))
        job.mark(rank)
    found = analysed(job.graph(), cost=50)
    assert found.compute_ns.tolist() == [100, 300]
    assert found.comm_ns.tolist() == [50, 50]
    assert found.wait_ns.tolist() == [200, 0]
    assert found.bubble_fraction == 200 / (2 * 350)
    assert found.critical_path == [Step(1, "compute", 300), Step(0, "all_reduce", 50)]


def test_overlapped_communication_costs_only_what_is_left_of_it() -> None:
    job = Job(2)
    for rank in (0, 1):
        handle = job.post(rank, OpKind.ALL_REDUCE, 4)
        job.compute(rank, 30)
        job.wait(rank, handle)
        job.mark(rank)
    assert analysed(job.graph(), cost=50).comm_ns.tolist() == [20, 20]
    assert analysed(job.graph(), cost=20).comm_ns.tolist() == [0, 0]


def test_a_wait_for_several_ops_is_judged_by_the_last_to_end() -> None:
    job = Job(2)
    other = job.group((0, 1))
    for rank, ns in ((0, 0), (1, 100)):
        early = job.post(rank, OpKind.ALL_REDUCE, 4)
        job.compute(rank, ns)
        late = job.post(rank, OpKind.BROADCAST, 4, other)
        job.wait(rank, late, early)
        job.mark(rank)
    found = analysed(job.graph(), cost=10)
    assert found.wait_ns.tolist() == [100, 0]
    assert found.comm_ns.tolist() == [10, 10]
    assert found.critical_path == [Step(1, "compute", 100), Step(0, "broadcast", 10)]


def test_ops_queued_in_a_channel_are_all_on_the_critical_path() -> None:
    job = Job(2)
    for rank in (0, 1):
        job.post(rank, OpKind.ALL_REDUCE, 4)
        job.wait(rank, job.post(rank, OpKind.BROADCAST, 4))
        job.mark(rank)
    assert analysed(job.graph(), cost=10).critical_path == [Step(0, "all_reduce", 10), Step(0, "broadcast", 10)]


def test_warm_up_is_left_out_of_everything() -> None:
    job = Job(1)
    for ns in (1000, 10, 20):
        job.compute(0, ns)
        job.mark(0)
    job.compute(0, 5000)
    found = analysed(job.graph(), warmup=1)
    assert found.window == (1000, 1030)
    assert found.iteration_ns == [10, 20]
    assert found.iterations.tolist() == [3]
    assert found.compute_ns.tolist() == [30]
    assert found.critical_path == [Step(0, "compute", 30)]


def test_a_job_without_iterations_is_analysed_whole() -> None:
    job = Job(2)
    job.compute(0, 7)
    job.compute(1, 4)
    found = analysed(job.graph(), warmup=2)
    assert found.window == (0, 7)
    assert found.iteration_ns == []
    assert found.wait_ns.tolist() == [0, 3]


def test_a_rank_with_fewer_iterations_drops_out_of_the_later_ones() -> None:
    job = Job(2)
    for _ in range(3):
        job.compute(0, 10)
        job.mark(0)
    job.compute(1, 25)
    job.mark(1)
    found = analysed(job.graph())
    assert found.iteration_ns == [25, 0, 5]
    assert found.iterations.tolist() == [3, 1]


def test_an_empty_job_has_nothing_to_say() -> None:
    found = analysed(Job(2).graph())
    assert found.bubble_fraction == 0
    assert found.critical_path == []


def test_a_rank_with_streams_is_seen_through_its_compute_stream() -> None:
    job = Job(1)
    job.compute(0, 5)
    launched = job.record(0)
    job.lane(0, Stream.COMPUTE)
    job.wait_event(0, launched)
    job.compute(0, 40)
    job.mark(0)
    found = analysed(job.graph())
    assert (found.compute_ns.tolist(), found.wait_ns.tolist()) == ([40], [5])
    assert found.critical_path == [Step(0, "compute", 45)]


def test_a_slow_rank_takes_over_the_critical_path() -> None:
    graph = data_parallel(4)
    found = analysed(graph, cost=10, durations=slow(graph, [2], 2.0))
    assert {step.rank for step in found.critical_path} == {2}
    assert found.wait_ns[2] == 0


@given(
    st.sampled_from([data_parallel(4), pipeline(4, 3), expert_parallel(4), two_dimensional(2, 2)]),
    st.integers(0, 3 * MS),
    st.integers(0, 3),
    st.integers(0, 2**32 - 1),
)
def test_parts_add_up_to_the_window(graph: Graph, cost: int, warmup: int, seed: int) -> None:
    durations = graph.nodes["duration"] * np.random.default_rng(seed).integers(1, 5, len(graph.nodes))
    found = analysed(graph, cost, warmup, durations)
    span = found.window.end - found.window.start
    parts = found.compute_ns + found.comm_ns + found.wait_ns
    assert parts.tolist() == [span] * graph.world_size
    assert min(found.compute_ns.min(), found.comm_ns.min(), found.wait_ns.min()) >= 0
    assert sum(step.ns for step in found.critical_path) == span
    assert sum(found.iteration_ns) in (span, 0)
