"""What lies between touching ops: which points, and how long the edges between them."""

from __future__ import annotations

import pytest

from prism.core.emulation.touching import find_touching
from prism.core.emulation.virtual_points import VirtualPoints, find_points
from prism.core.graph import Graph, InvalidGraph, OpKind
from prism.core.timeline.replay import evaluate, make_plan
from tests.core.jobs import Job
from tests.core.test_replay import costs_of


def points_of(graph: Graph, sandbox: list[int]) -> VirtualPoints:
    plan, costs = make_plan(graph), costs_of(graph)
    timeline = evaluate(plan, graph.nodes["duration"], costs)
    touching = find_touching(graph, plan, timeline.op_start, sandbox)
    return find_points(graph, plan, touching, graph.nodes["duration"], costs)


def edges(points: VirtualPoints, target: int) -> list[tuple[int, int]]:
    """Source and weight of each edge into a point."""
    into = slice(points.edge_ptr[target], points.edge_ptr[target + 1])
    return list(zip(points.source[into].tolist(), points.weight[into].tolist(), strict=True))


def test_points_are_the_origin_the_ends_and_what_posts_follow_from() -> None:
    job = Job(3)
    virtual = job.group((1, 2))
    for rank in (1, 2):
        job.compute(rank, 100)
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 1, virtual))  # takes 10
    job.compute(2, 7)
    for rank in range(3):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 2))  # touches, takes 13; nothing follows from these waits
    points = points_of(job.graph(), [0])
    # The starts of two lanes, the virtual op, its two waits, and the end.
    assert len(points) == 1 + 2 + 1 + 2 + 1
    assert points.end.tolist() == [6]
    assert points.prev.tolist() == [-1] * 6 + [0]
    assert points.cost.tolist() == [0] * 6 + [13]
    assert [list(range(level.start, level.stop)) for level, _ in points.levels()] == [[1, 2], [3], [4, 5], [6]]
    starts = [edges(points, lane)[0][1] for lane in (1, 2)]
    # Of a lane a point tells how far it is behind the sum of all computing, in which rank 2 begins at 100.
    assert starts == [0, -100]
    assert edges(points, 3) == [(1, 100), (2, 200)]
    assert edges(points, 4) == [(1, 0), (3, 10 - 100)]
    assert edges(points, 5) == [(2, 0), (3, 10 - 200)]
    assert edges(points, 6) == [(4, 100), (5, 207)]
    assert points.posts().tolist() == list(range(points.edge_ptr[6], points.edge_ptr[7]))


def test_an_end_comes_after_the_one_before_it_in_its_channel() -> None:
    job = Job(2)
    for rank in (0, 1):
        first, second = (job.post(rank, OpKind.ALL_REDUCE, 1) for _ in range(2))
        job.wait(rank, first, second)
    points = points_of(job.graph(), [0])
    assert points.prev[points.end].tolist() == [0, points.end[0]]


def test_an_op_of_sandbox_ranks_alone_has_no_edges_into_its_end() -> None:
    job = Job(2)
    for rank in (0, 1):
        job.post(rank, OpKind.ALL_REDUCE, 1)
    points = points_of(job.graph(), [0, 1])
    assert edges(points, int(points.end[0])) == []


def test_the_cost_of_a_touching_op_is_in_its_end() -> None:
    job = Job(2)
    for _ in range(2):
        for rank in (0, 1):
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 1))
    points = points_of(job.graph(), [0])
    (wait,) = (point for point in range(len(points)) if points.prev[point] < 0 and len(edges(points, point)) == 2)
    assert (int(points.end[0]), 0) in edges(points, wait)


def test_an_event_between_the_sandbox_and_a_virtual_rank_is_refused() -> None:
    job = Job(3)
    event = job.record(0)
    job.wait_event(1, event)
    for rank in range(3):
        job.post(rank, OpKind.ALL_REDUCE, 4)
    with pytest.raises(InvalidGraph, match="virtual rank waits for an event of a sandbox rank"):
        points_of(job.graph(), [0])
