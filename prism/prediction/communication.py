"""From the network block of a scenario to what each op costs, and what it takes of the links that are shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph
from prism.core.timeline.measured import measured_costs
from prism.core.timeline.network import Costs, LinkClass, Network, op_costs, runs_along_trees
from prism.core.timeline.sharing import Loads
from prism.core.timeline.topology import Topology, op_loads
from prism.scenario import Link, Scenario, read_table
from prism.scenario import Network as NetworkBlock


@dataclass(frozen=True)
class Communication:
    """The costs; the loads, None where every op has its links to itself; and what a measured table leaves open."""

    costs: Costs
    loads: list[Loads] | None
    notes: list[str]


def communication(graph: Graph, scenario: Scenario, block: NetworkBlock) -> Communication:
    """What a network, the scenario's or a variant's, makes of the ops of a graph; raises ScenarioError on its table."""
    network = _network(block)
    ranks_per_node = scenario.world.ranks_per_node
    if block.model == "measured" and block.table is not None:
        costs, notes = measured_costs(graph, read_table(scenario.base / block.table), network, ranks_per_node)
    else:
        costs, notes = op_costs(graph, network, ranks_per_node), []
    wiring = block.topology
    if wiring.kind == "node":
        return Communication(costs, None, notes)
    topology = Topology(wiring.kind, ranks_per_node, wiring.pods or 1, wiring.oversubscription or 1.0)
    return Communication(costs, op_loads(graph, network, topology), notes)


def along_trees(graph: Graph, scenario: Scenario) -> npt.NDArray[np.bool_]:
    """Which ops of a graph run along trees by the scenario's network: bool[ops]."""
    return runs_along_trees(graph, _network(scenario.network), scenario.world.ranks_per_node)


def _network(block: NetworkBlock) -> Network:
    kind: Literal["none", "alpha-beta"] = "none" if block.model == "none" else "alpha-beta"
    return Network(kind, _link(block.intra_node), _link(block.inter_node), block.algorithm)


def _link(link: Link) -> LinkClass:
    return LinkClass(bandwidth=link.bandwidth, latency=link.latency)
