"""`network.algorithm` on its way from the scenario, or a variant of it, to the costs of operations."""

from __future__ import annotations

from typing import Literal

import pytest

from prism.core.graph import OpKind
from prism.core.timeline import network as core
from prism.prediction.communication import along_trees, communication
from prism.scenario import Network, Program, Scenario, World
from prism.scenario.network import NetworkChange
from tests.core.jobs import Job


def scenario(network: Network) -> Scenario:
    return Scenario(
        prism=1, name="trees", program=Program(module="json"), world=World(size=8, ranks_per_node=2), network=network
    )


@pytest.mark.parametrize("algorithm", ["ring", "tree", "auto"])
def test_costs_and_who_runs_along_trees(algorithm: Literal["ring", "tree", "auto"]) -> None:
    job = Job(8)
    for rank in range(8):
        job.post(rank, OpKind.ALL_REDUCE, 4096)
    graph, block = job.graph(), Network(algorithm=algorithm)
    links = [core.LinkClass(link.bandwidth, link.latency) for link in (block.intra_node, block.inter_node)]
    given = scenario(block)
    expected = core.op_costs(graph, core.Network("alpha-beta", *links, algorithm), 2).total
    assert communication(graph, given, block).costs.total.tolist() == expected.tolist()
    assert along_trees(graph, given).tolist() == [algorithm != "ring"]  # 6 steps are fewer than 14


def test_a_variant_may_change_it() -> None:
    assert NetworkChange(algorithm="tree").applied(Network()).algorithm == "tree"
    assert NetworkChange().applied(Network(algorithm="auto")).algorithm == "auto"
