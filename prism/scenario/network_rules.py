"""Which values of a network rule each other out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prism.errors import ScenarioError
from prism.scenario.flaw import Flaw, Path
from prism.scenario.tables import read_table

if TYPE_CHECKING:
    from prism.scenario.blocks import World
    from prism.scenario.network import Network
    from prism.scenario.schema import Scenario


def refuse_network(path: Path, network: Network, scenario: Scenario, world: World) -> None:
    """Raise Flaw for what a network, the scenario's or a variant's in its world, cannot be."""
    if network.model == "measured" and network.table is None:
        raise Flaw((*path, "table"), "measured needs one, give a file of nccl-tests output or CSV")
    if network.table is not None:
        try:
            read_table(scenario.base / network.table)
        except ScenarioError as error:
            raise Flaw((*path, "table"), str(error)) from None
    topology, nodes = network.topology, world.nodes
    if topology.kind != "node" and network.algorithm != "ring":
        what = f"{network.algorithm} is not available yet with topology {topology.kind}, choose ring"
        raise Flaw((*path, "algorithm"), what)
    if topology.kind != "two-tier" and topology.pods is not None:
        raise Flaw((*path, "topology", "pods"), f"only two-tier has them, leave it null for {topology.kind}")
    if topology.kind == "node" and topology.oversubscription is not None:
        raise Flaw((*path, "topology", "oversubscription"), "only rail and two-tier have it, leave it null for node")
    if topology.kind == "two-tier" and not 1 <= (topology.pods or 0) <= nodes:
        what = f"expected 1 to {nodes}, the number of nodes, got {topology.pods or 'null'}"
        raise Flaw((*path, "topology", "pods"), what)
