"""Costs along two trees, against trees that are built and counted."""

from __future__ import annotations

import numpy as np
import pytest

from prism.core.graph import OpKind
from prism.core.timeline.network import PIPELINE_CHUNK, LinkClass, Network, op_costs, runs_along_trees
from prism.core.timeline.trees import Nodes, tree_traffic
from tests.core.double_tree import hops, parents
from tests.core.jobs import Job

INTRA, INTER = LinkClass(2_000_000_000, 10), LinkClass(1_000_000_000, 1000)
TREE = Network("alpha-beta", INTRA, INTER, "tree")


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 100, 1024])
def test_the_longest_way_and_the_busiest_node(nodes: int) -> None:
    trees = parents(nodes)
    edges = np.zeros(nodes, np.int64)
    for parent in trees:
        for node, above in enumerate(parent):
            if above >= 0:
                edges[[node, above]] += 1
    size = 1000 * 2
    traffic = tree_traffic(Nodes(np.array([nodes]), np.array([1])), np.array([size]), PIPELINE_CHUNK)
    longest = max(hops(parent, node) for parent in trees for node in range(nodes))
    assert (int(traffic.inside[0]), int(traffic.between[0])) == (0, 2 * longest)
    assert int(traffic.nbytes[0]) == edges.max() * size // 2 + (2 * longest - 2) * size // 2


@pytest.mark.parametrize(("members", "halves"), [(2, 2), (3, 4), (8, 4)])
def test_a_chain_inside_one_node(members: int, halves: int) -> None:
    size = 100 * PIPELINE_CHUNK
    traffic = tree_traffic(Nodes(np.array([1]), np.array([members])), np.array([size]), PIPELINE_CHUNK)
    assert (int(traffic.inside[0]), int(traffic.between[0])) == (2 * (members - 1), 0)
    assert int(traffic.nbytes[0]) == halves * size // 2 + (2 * members - 4) * PIPELINE_CHUNK


def all_reduce(world: int, nbytes: int) -> Job:
    job = Job(world)
    for rank in range(world):
        job.post(rank, OpKind.ALL_REDUCE, nbytes)
    return job


def test_latency_counts_the_hops_of_each_link() -> None:
    # 8 nodes of 2: one hop in the node, three between nodes, up and down; then 2 s, and half of it 6 times more.
    costs = op_costs(all_reduce(16, 800).graph(), TREE, 2)
    assert costs.latency.tolist() == [2 * 10 + 6 * 1000]
    assert costs.transfer.tolist() == [1600 + 6 * 400]
    assert op_costs(all_reduce(4, 800).graph(), TREE, 4).total.tolist() == [6 * 10 + (1600 + 4 * 400) // 2]


def test_only_an_all_reduce_runs_along_trees() -> None:
    job = all_reduce(4, 800)
    for rank in range(4):
        job.post(rank, OpKind.ALL_GATHER, 800)
    alone = job.group((2,))
    job.post(2, OpKind.ALL_REDUCE, 800, group=alone)
    graph = job.graph()
    ring = Network("alpha-beta", INTRA, INTER)
    along = runs_along_trees(graph, TREE, 1)
    assert sorted(along.tolist()) == [False, False, True]
    assert (op_costs(graph, TREE, 1).total == op_costs(graph, ring, 1).total).tolist() == (~along).tolist()
    assert not runs_along_trees(graph, ring, 1).any()


@pytest.mark.parametrize("kind", ["alpha-beta", "none"])
def test_auto_takes_what_costs_less(kind: str) -> None:
    auto = Network(kind, INTRA, INTER, "auto")  # type: ignore[arg-type]
    small, large = all_reduce(64, 8).graph(), all_reduce(64, 1 << 30).graph()
    assert runs_along_trees(small, auto, 1).tolist() == [True]
    assert runs_along_trees(large, auto, 1).tolist() == [False]
    if kind == "alpha-beta":
        for graph in (small, large):
            either = [op_costs(graph, Network(kind, INTRA, INTER, name), 1).total for name in ("ring", "tree")]
            assert op_costs(graph, auto, 1).total.tolist() == np.minimum(*either).tolist()
    else:
        assert op_costs(small, auto, 1).total.tolist() == [0]
