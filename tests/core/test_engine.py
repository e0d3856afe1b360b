"""The event queue against replay where nothing depends on the schedule, and by hand where something does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.graph import Graph, OpKind
from prism.core.timeline.engine import NEVER, Stall, Stop, simulate
from prism.core.timeline.network import Costs
from prism.core.timeline.replay import evaluate, make_plan, slow
from prism.core.timeline.sharing import FULL
from prism.core.timeline.throttle import Throttle
from tests.core.jobs import Job, data_parallel, expert_parallel, pipeline, two_dimensional
from tests.core.test_replay import WORLD, programs

PARALLEL = [data_parallel(4), pipeline(4, 3), expert_parallel(4), two_dimensional(2, 2)]


def costs_of(graph: Graph, latency: int = 7) -> Costs:
    return Costs(np.full(len(graph.ops), latency), 3 * graph.ops["nbytes"])


def columns(graph: Graph, **dynamics: object) -> list[list[int]]:
    timeline = simulate(graph, graph.nodes["duration"], costs_of(graph), **dynamics).timeline
    return [column.tolist() for column in (timeline.node_start, timeline.node_end, timeline.op_start, timeline.op_end)]


def replayed(graph: Graph, durations: np.ndarray | None = None) -> list[list[int]]:
    chosen = graph.nodes["duration"] if durations is None else durations
    timeline = evaluate(make_plan(graph), chosen, costs_of(graph).total)
    return [column.tolist() for column in (timeline.node_start, timeline.node_end, timeline.op_start, timeline.op_end)]


@given(programs())
def test_equals_replay_to_the_nanosecond(graph: Graph) -> None:
    assert columns(graph) == replayed(graph)


@pytest.mark.parametrize("graph", PARALLEL)
def test_parallel_programs_equal_replay(graph: Graph) -> None:
    assert columns(graph) == replayed(graph)


@given(programs(), st.integers(0, WORLD - 1), st.sampled_from([0.5, 1.3, 2.0]))
def test_a_throttle_without_end_equals_a_slow_rank(graph: Graph, rank: int, factor: float) -> None:
    assert columns(graph, throttle=Throttle((rank,), factor)) == replayed(graph, slow(graph, [rank], factor))


@given(programs())
def test_links_with_room_for_all_change_nothing(graph: Graph) -> None:
    loads = [((0, FULL // max(1, len(graph.ops))),)] * len(graph.ops)
    assert columns(graph, loads=loads) == replayed(graph)


@given(programs())
def test_links_of_their_own_change_nothing(graph: Graph) -> None:
    assert columns(graph, loads=[((op, FULL),) for op in range(len(graph.ops))]) == replayed(graph)


@given(programs())
def test_shared_links_end_nothing_earlier(graph: Graph) -> None:
    shared = columns(graph, loads=[((op % 2, FULL),) for op in range(len(graph.ops))])
    for later, earlier in zip(shared, replayed(graph), strict=True):
        assert (np.array(later) >= earlier).all()


@given(programs(), st.integers(0, WORLD - 1), st.integers(0, 2000))
def test_a_stop_changes_nothing_before_it_and_ends_nothing_of_the_rank_after(graph: Graph, rank: int, at: int) -> None:
    outcome = simulate(graph, graph.nodes["duration"], costs_of(graph), stop=Stop(rank, at))
    end = outcome.timeline.node_end
    expected = np.array(replayed(graph)[1], np.int64)
    assert (end[expected <= at] == expected[expected <= at]).all()
    assert ((end == expected) | (end == NEVER)).all()
    assert end[graph.node_rank() == rank].max(initial=NEVER) <= at
    assert all(stall.rank != rank and end[stall.node] == NEVER for stall in outcome.stalls)


def test_a_stop_after_the_end_stalls_nobody() -> None:
    graph = data_parallel(4)
    last = max(replayed(graph)[1])
    assert columns(graph, stop=Stop(2, last)) == replayed(graph)


def test_who_stalls_and_since_when() -> None:
    job = Job(3)
    pair = job.group((0, 1))
    for rank, work in ((0, 10), (1, 20), (2, 5)):
        job.compute(rank, work)
        if rank < 2:
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 4, pair))
    for rank in range(3):
        job.compute(rank, 100)
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 4))
    graph = job.graph()
    outcome = simulate(graph, graph.nodes["duration"], costs_of(graph), stop=Stop(1, 15))
    assert outcome.stalls == [Stall(0, 2, 10), Stall(2, 15, 105)]


def test_an_op_in_flight_never_ends_when_a_member_stops() -> None:
    job = Job(2)
    for rank in (0, 1):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 100))
    graph = job.graph()
    for loads in (None, [((0, FULL),)]):
        outcome = simulate(graph, graph.nodes["duration"], costs_of(graph), loads=loads, stop=Stop(1, 306))
        assert outcome.timeline.op_end.tolist() == [NEVER]
        assert outcome.stalls == [Stall(0, 1, 0)]
    assert not simulate(graph, graph.nodes["duration"], costs_of(graph), stop=Stop(1, 307)).stalls


def test_a_transfer_that_comes_to_nothing_frees_its_links() -> None:
    job = Job(4)
    for ranks in ((0, 1), (2, 3)):
        group = job.group(ranks)
        for rank in ranks:
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 100, group))
    graph = job.graph()
    outcome = simulate(
        graph, graph.nodes["duration"], costs_of(graph, latency=0), loads=[((0, FULL),)] * 2, stop=Stop(0, 200)
    )
    # 100 of 300 ns were done at half speed, the other 200 pass at full speed.
    assert outcome.timeline.op_end.tolist() == [NEVER, 400]


def test_a_later_transfer_shares_what_is_left() -> None:
    job = Job(4)
    for ranks, work in (((0, 1), 0), ((2, 3), 100)):
        group = job.group(ranks)
        for rank in ranks:
            job.compute(rank, work)
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 100, group))
    graph = job.graph()
    outcome = simulate(graph, graph.nodes["duration"], costs_of(graph, latency=0), loads=[((0, FULL),)] * 2)
    # Alone for 100 ns, both at half speed for 400, then the later one alone for its last 100.
    assert outcome.timeline.op_end.tolist() == [500, 600]
