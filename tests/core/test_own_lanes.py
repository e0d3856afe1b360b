"""The lanes that were run: calibration sees a graph of theirs alone, and its durations go to all ranks."""

from __future__ import annotations

import numpy as np
import pytest

from prism.core.folding.measured import own_lanes, spread
from prism.core.folding.shape import Folding
from prism.core.graph import Graph, NodeKind, OpKind
from prism.core.measuring.calibration import compute_nodes, iterations_to_run, place
from prism.core.measuring.segments import Segments
from prism.core.measuring.signatures import ranks_alike
from tests.core.folded_stage import FoldedSimulation, Symmetric, folding

FOLDED = folding({"pp": 2, "dp": 3, "tp": 2}, "dp")


def unfolded(folded: Folding, seed: int) -> Graph:
    stage = FoldedSimulation(folded, Symmetric(folded, seed).act(12), seed)
    stage.run()
    return stage.exchange.graph()


@pytest.mark.parametrize("seed", range(4))
def test_they_have_the_nodes_of_the_representatives(seed: int) -> None:
    graph = unfolded(FOLDED, seed)
    own = own_lanes(graph, FOLDED)
    assert own.lanes["rank"].tolist() == list(FOLDED.representatives)
    assert own.world_size == graph.world_size
    for lane, rank in enumerate(FOLDED.representatives):
        mine, theirs = (slice(*g.lane_ptr[i : i + 2]) for g, i in ((own, lane), (graph, rank)))
        for column in ("kind", "site"):
            assert np.array_equal(own.nodes[column][mine], graph.nodes[column][theirs])


@pytest.mark.parametrize("seed", range(4))
def test_posts_and_waits_refer_to_the_ops_of_those_that_run(seed: int) -> None:
    graph = unfolded(FOLDED, seed)
    own = own_lanes(graph, FOLDED)
    ops = np.repeat(np.arange(len(own.ops)), np.diff(own.post_ptr))
    assert (own.nodes["kind"][own.posts] == NodeKind.POST).all()
    assert np.array_equal(own.nodes["ref"][own.posts], ops)
    assert (own.ops["prev"] < np.arange(len(own.ops))).all()
    assert set(own.wait_ops.tolist()) <= set(range(len(own.ops)))
    assert np.array_equal(own.nodes["ref"][own.nodes["kind"] == NodeKind.WAIT], np.arange(len(own.wait_ptr) - 1))


def test_what_a_rank_sends_and_gets_in_an_all_to_all_stays() -> None:
    graph = next(g for g in (unfolded(FOLDED, seed) for seed in range(20)) if len(g.splits))
    own = own_lanes(graph, FOLDED)
    assert len(own.splits)
    for op in np.flatnonzero(own.ops["kind"] == OpKind.ALL_TO_ALL):
        ranks = own.node_rank()[own.posts[own.post_ptr[op] : own.post_ptr[op + 1]]]
        matrix = own.splits[own.split_ptr[op] : own.split_ptr[op + 1]].reshape(ranks.size, ranks.size)
        row = own.ops[op]
        full = np.flatnonzero((graph.ops["group"] == row["group"]) & (graph.ops["seq"] == row["seq"]))
        (full,) = (i for i in full if graph.ops["kind"][i] == OpKind.ALL_TO_ALL)
        members = graph.groups[row["group"]].ranks
        whole = graph.splits[graph.split_ptr[full] : graph.split_ptr[full + 1]].reshape(len(members), -1)
        seats = [members.index(rank) for rank in ranks.tolist()]
        assert matrix.sum(axis=1).tolist() == whole.sum(axis=1)[seats].tolist()
        assert matrix.sum(axis=0).tolist() == whole.sum(axis=0)[seats].tolist()


def test_calibration_takes_them_for_a_graph() -> None:
    own = own_lanes(unfolded(FOLDED, 1), FOLDED)
    values, hosts = np.full((2, len(own.nodes)), -1)
    for rank in FOLDED.representatives:
        place(own, values, hosts, rank, Segments([*range(compute_nodes(own, rank).size)]))
    assert (values[own.nodes["kind"] == NodeKind.COMPUTE] >= 0).all()
    assert sorted(rank for ranks in ranks_alike(own) for rank in ranks) == list(FOLDED.representatives)
    assert iterations_to_run(own, 1, 0)[list(FOLDED.representatives)].all()


@pytest.mark.parametrize("folded", [FOLDED, folding({"dp": 2, "pp": 2, "ep": 2}, "ep", "dp")])
def test_durations_go_to_all_ranks_that_a_rank_stands_for(folded: Folding) -> None:
    graph = unfolded(folded, 3)
    own = own_lanes(graph, folded)
    found = spread(graph, folded, np.arange(len(own.nodes)))
    for rank in range(folded.world_size):
        lane = folded.representatives.index(folded.representative(rank))
        assert found[graph.lane_ptr[rank] : graph.lane_ptr[rank + 1]].tolist() == list(
            range(*own.lane_ptr[lane : lane + 2])
        )
