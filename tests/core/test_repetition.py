"""Lanes made of nodes of other lanes: ops and waits follow, or the ranks that no longer agree are named."""

from __future__ import annotations

import numpy as np
import pytest

from prism.core.graph import Graph, NodeKind, OpKind
from prism.core.levels import ranges
from prism.core.prismtrace import Trace, encode
from prism.core.what_if.repetition import repeated
from tests.core.jobs import Job, data_parallel, expert_parallel, pipeline, two_dimensional
from tests.core.schedules import WAITS, Schedule


def encoded(graph: Graph) -> bytes:
    return b"".join(encode(Trace(graph)))


def without(graph: Graph, *nodes: int) -> Graph:
    """The graph whose lanes lack these nodes."""
    taken = np.setdiff1d(np.arange(len(graph.nodes)), nodes)
    return repeated(graph, taken, np.searchsorted(taken, graph.lane_ptr))


def twice(graph: Graph, lanes: np.ndarray) -> Graph:
    """The graph some of whose lanes are gone through twice, all else as it is."""
    times = np.where(np.isin(np.arange(len(graph.lanes)), lanes), 2, 1)
    order = np.repeat(np.arange(len(graph.lanes)), times)
    lane_ptr = np.concatenate(([0], np.cumsum(times * np.diff(graph.lane_ptr))))
    return repeated(graph, ranges(graph.lane_ptr[order], graph.lane_ptr[order + 1]), lane_ptr)


@pytest.mark.parametrize(
    "graph",
    [
        data_parallel(3),
        pipeline(3, 2),
        expert_parallel(2),
        two_dimensional(2, 2),
        *(Schedule("1f1b", 3, 4, waits=waits).graph() for waits in WAITS),
    ],
)
def test_the_same_nodes_make_the_same_graph(graph: Graph) -> None:
    assert encoded(without(graph)) == encoded(graph)


def test_whole_lanes_gone_through_twice_make_twice_the_iterations() -> None:
    once, expected = data_parallel(3, iterations=2), data_parallel(3, iterations=4)
    found = twice(once, np.arange(3))
    found.nodes["ref"][found.nodes["kind"] == NodeKind.MARK] = np.tile(np.arange(4), 3)
    assert encoded(found) == encoded(expected)


def test_members_must_post_as_many() -> None:
    with pytest.raises(ValueError, match=r"^rank 0 would post 6 and rank 1 3 collectives on group world$"):
        twice(data_parallel(2, iterations=1), np.array([0]))
    text = r"^rank 0 would post 2 and rank 1 4 messages from rank 0 to rank 1 on group world$"
    with pytest.raises(ValueError, match=text):
        twice(pipeline(2, 2, iterations=1), np.array([1]))


def test_members_must_post_the_same() -> None:
    job = Job(2)
    for rank in (0, 1):
        for nbytes in (4, 8):
            job.post(rank, OpKind.ALL_REDUCE, nbytes)
    with pytest.raises(ValueError, match=r"^ranks 0 and 1 would disagree about their collectives on group world$"):
        without(job.graph(), 0, 3)


def test_a_wait_needs_its_post_before_it() -> None:
    job = Job(1)
    job.wait(0, job.post(0, OpKind.ALL_REDUCE))
    with pytest.raises(ValueError, match=r"^rank 0 would wait before it posts collectives on group world$"):
        without(job.graph(), 0)


def test_no_op_is_forgotten_that_was_waited_for() -> None:
    job = Job(1)
    for _ in range(2):
        job.wait(0, job.post(0, OpKind.ALL_REDUCE))
    with pytest.raises(
        ValueError, match=r"^rank 0 would not wait for all of its collectives on group world, as it does"
    ):
        without(job.graph(), 1)


def test_who_never_waits_need_not() -> None:
    graph = Schedule("gpipe", 2, 2, waits="never").graph()
    assert encoded(without(graph)) == encoded(graph)


def test_ops_must_be_posted_in_the_order_in_which_they_run() -> None:
    graph = data_parallel(2, iterations=1, buckets=2)
    posts = graph.posts[::2]
    graph.nodes["ref"][posts], graph.posts[::2] = graph.nodes["ref"][posts[::-1]], posts[::-1].copy()
    with pytest.raises(ValueError, match=r"^rank 0 posts on group world in another order than the ops run$"):
        without(graph)
