"""What communication costs: the scenario's network, and the parts of it that a variant replaces."""

from __future__ import annotations

from typing import Literal

import msgspec

from prism.scenario.block import Bandwidth, Block, Count, Factor, Nanoseconds


class Link(Block, frozen=True, kw_only=True):
    """One link class; bandwidth in bytes per second for each rank and direction, latency in ns."""

    bandwidth: Bandwidth
    latency: Nanoseconds


class LinkChange(Block, frozen=True, kw_only=True):
    """The parts of a link that a variant replaces; null keeps the base's."""

    bandwidth: Bandwidth | None = None
    latency: Nanoseconds | None = None

    def applied(self, link: Link) -> Link:
        """The link with these parts replaced."""
        latency = link.latency if self.latency is None else self.latency
        return Link(bandwidth=self.bandwidth or link.bandwidth, latency=latency)


class Topology(Block, frozen=True, kw_only=True):
    """How nodes are wired together, and with it which ops have to share links."""

    kind: Literal["node", "rail", "two-tier"] = "node"
    """node: every op has its links to itself; rail: one switch for the ranks with one place in their node; two-tier:
    one for the nodes of a pod."""

    pods: Count | None = None
    """For `two-tier`, and required there: the nodes are dealt to so many pods in blocks."""

    oversubscription: Factor | None = None
    """How many times more bandwidth a switch has to its ranks than to the other switches; null: the same."""


class Network(Block, frozen=True, kw_only=True):
    """What communication costs."""

    model: Literal["alpha-beta", "measured", "none"] = "alpha-beta"
    table: str | None = None
    """For `measured`, and required there: a file of costs, relative to the scenario file."""

    intra_node: Link = Link(bandwidth=450 * 10**9, latency=3_000)
    inter_node: Link = Link(bandwidth=50 * 10**9, latency=8_000)
    topology: Topology = Topology()
    algorithm: Literal["ring", "tree", "auto"] = "ring"
    """How an all_reduce runs: along a ring, along two trees, or `auto`: along trees where they cost less."""


class NetworkChange(Block, frozen=True, kw_only=True):
    """The parts of the network that a variant replaces."""

    model: Literal["alpha-beta", "measured", "none"] | None = None
    table: str | None = None
    intra_node: LinkChange = LinkChange()
    inter_node: LinkChange = LinkChange()
    topology: Topology | None = None
    algorithm: Literal["ring", "tree", "auto"] | None = None

    def applied(self, network: Network) -> Network:
        """The network with these parts replaced."""
        return msgspec.structs.replace(
            network,
            model=self.model or network.model,
            table=self.table or network.table,
            topology=self.topology or network.topology,
            algorithm=self.algorithm or network.algorithm,
            intra_node=self.intra_node.applied(network.intra_node),
            inter_node=self.inter_node.applied(network.inter_node),
        )
