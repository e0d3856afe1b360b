"""Other routing of tokens: splits, sizes and the time of experts follow, on the routes that are found."""

from __future__ import annotations

import numpy as np
import pytest

from prism.core.graph import DTYPES, Graph, NodeKind, OpKind
from prism.core.prismtrace import Trace, encode
from prism.core.what_if.routes import find_routes
from prism.core.what_if.routing import with_routing
from tests.core.jobs import MIB, MS, Job, data_parallel, expert_parallel

THERE, BACK = [4, 12, 4, 12], [4, 4, 12, 12]  # bytes from member to member of two


def encoded(graph: Graph) -> bytes:
    return b"".join(encode(Trace(graph)))


def routed(*matrices: list[int], groups: int = 1) -> Job:
    """A job of two ranks that exchange these matrices in turn, and compute 100 ns before each post."""
    job = Job(2)
    names = [job.group((0, 1), f"experts{number}") for number in range(groups)]
    for rank in (0, 1):
        for group in names:
            for splits in matrices:
                job.compute(rank, 100)
                job.wait(rank, job.post(rank, OpKind.ALL_TO_ALL, 16, group, splits=splits))
        job.mark(rank)
    return job


def durations(graph: Graph, rank: int) -> list[int]:
    nodes = graph.nodes[graph.lane_ptr[rank] : graph.lane_ptr[rank + 1]]
    return nodes["duration"][nodes["kind"] == NodeKind.COMPUTE].tolist()


def pairs(graph: Graph, group: str | None = None) -> list[tuple[int, int]]:
    return [pair for found in find_routes(graph, group) for pair in zip(found.there, found.back, strict=True)]


def test_routing_that_changes_nothing_leaves_the_graph_as_it_is() -> None:
    graph = expert_parallel(4)
    assert encoded(with_routing(graph, 1.6)) == encoded(graph)


def test_even_routing_takes_all_experts_as_long() -> None:
    graph = with_routing(expert_parallel(4, iterations=1, layers=1), 1)
    assert set(graph.splits.tolist()) == {5 * MIB // 4}
    assert [durations(graph, rank)[1] for rank in range(4)] == [5 * MS // 4] * 4
    assert graph.ops["nbytes"].tolist() == [5 * MIB, 5 * MIB]


def test_only_what_is_computed_on_the_tokens_takes_longer() -> None:
    graph = with_routing(routed(THERE, BACK).graph(), 2)
    assert graph.splits.tolist() == [0, 16, 0, 16, 0, 0, 16, 16]
    assert graph.ops["nbytes"].tolist() == [16, 32]
    assert [durations(graph, rank) for rank in (0, 1)] == [[100, 0], [100, 133]]


def test_an_expert_that_got_nothing_takes_as_long_as_others_for_what_it_gets() -> None:
    graph = with_routing(routed([0, 16, 0, 16], [0, 0, 16, 16]).graph(), 1)
    # Rank 1 took 100 ns for 32 bytes; rank 0 took 100 ns for none.
    assert [durations(graph, rank)[1] for rank in (0, 1)] == [150, 50]


def test_gradients_take_a_route_too() -> None:
    assert pairs(routed(THERE, BACK, THERE, BACK).graph()) == [(0, 1), (2, 3)]


def test_what_else_a_group_exchanges_is_no_route() -> None:
    assert pairs(routed(THERE, [4, 12, 12, 4], BACK).graph()) == [(0, 2)]
    assert pairs(routed(THERE, THERE).graph()) == []


def test_sizes_are_no_tokens() -> None:
    graph = routed([8, 8, 8, 8], [8, 8, 8, 8], [8, 8, 8, 8]).graph()
    graph.ops["dtype"][0] = DTYPES.index("int64")
    assert pairs(graph) == [(1, 2)]


def test_a_route_ends_within_its_iteration() -> None:
    job = routed(THERE)
    for rank in (0, 1):
        job.wait(rank, job.post(rank, OpKind.ALL_TO_ALL, 16, 1, splits=BACK))
    assert pairs(job.graph()) == []


def test_one_group_may_be_chosen() -> None:
    graph = with_routing(routed(THERE, BACK, groups=2).graph(), 2, "experts1")
    assert graph.splits.tolist() == [*THERE, *BACK, 0, 16, 0, 16, 0, 0, 16, 16]


def test_what_no_graph_allows() -> None:
    graph = routed(THERE, BACK).graph()
    with pytest.raises(ValueError, match="no group is called 'ep', choose from world, experts0"):
        with_routing(graph, 1, "ep")
    with pytest.raises(ValueError, match=r"group experts0 has 2 ranks, none can get 2\.5 times the mean"):
        with_routing(graph, 2.5)
    with pytest.raises(ValueError, match="no all_to_all is followed by one of its group that gives back"):
        with_routing(data_parallel(2), 1)
    with pytest.raises(ValueError, match="no all_to_all is followed"):
        with_routing(graph, 1, "world")


def test_tokens_are_dealt_in_whole_elements() -> None:
    graph = with_routing(routed([4, 12, 8, 8], [4, 8, 12, 8]).graph(), 1.1)
    assert np.mod(graph.splits, 4).tolist() == [0] * 8
    assert graph.splits.reshape(2, 2, 2).sum(axis=2)[0].tolist() == [16, 16]
