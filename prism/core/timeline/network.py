"""Cost of communication: latency and bandwidth against the steps and bytes of the algorithm that runs.

An op takes `steps x latency + bytes / bandwidth`, where steps and bytes are those of its busiest member in NCCL's ring
and point-to-point algorithms. Both roundings go up: first to whole bytes, then to whole nanoseconds, exactly (no
floating point), so a cost never depends on the order of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, InvalidGraph, OpKind
from prism.core.levels import pointers, ranges
from prism.core.timeline.trees import Nodes, group_nodes, tree_traffic

NS_PER_S = 1_000_000_000

PIPELINE_CHUNK = 512 * 1024
"""Bytes that a chain hands on at a time: one of the 8 slots of NCCL's 4 MiB buffer (protocol Simple)."""


@dataclass(frozen=True, slots=True)
class LinkClass:
    """One kind of link: bandwidth in bytes/s per rank and direction, latency in ns per step."""

    bandwidth: int
    latency: int

    def __post_init__(self) -> None:
        if self.bandwidth <= 0 or self.latency < 0:
            raise ValueError(
                f"a link needs bandwidth > 0 and latency >= 0, not {self.bandwidth} B/s and {self.latency} ns"
            )

    def transfer_ns(self, nbytes: Int64) -> Int64:
        """The time in which so many bytes pass, rounded up to whole ns."""
        # In Python integers, as bytes x 10^9 leaves 64 bits; a job has few distinct sizes.
        sizes, index = np.unique(nbytes, return_inverse=True)
        transfer = [-(-size * NS_PER_S // self.bandwidth) for size in sizes.tolist()]
        return np.array(transfer, np.int64)[index]


@dataclass(frozen=True, slots=True)
class Network:
    """The links of a cluster; kind `none` makes communication free.

    `algorithm`: how an all_reduce runs, along a ring, along two trees (prism.core.timeline.trees), or `auto`: along
    trees where they cost less by these links.
    """

    kind: Literal["alpha-beta", "none"]
    intra: LinkClass
    inter: LinkClass
    algorithm: Literal["ring", "tree", "auto"] = "ring"


@dataclass(frozen=True, slots=True)
class Costs:
    """What ops cost, int64[ops] ns: the latency first, then the transfer, which other traffic can make longer."""

    latency: Int64
    transfer: Int64

    @property
    def total(self) -> Int64:
        """From the start of each op to its end, where it has its links to itself."""
        return self.latency + self.transfer


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the busiest member of each op does, a row an op."""

    members: Int64
    size: Int64  # the op's nbytes; of an ALL_TO_ALL what one member exchanges with all others
    steps: Int64
    nbytes: Int64
    across: npt.NDArray[np.bool_]  # whether the members are on several nodes


def op_costs(graph: Graph, network: Network, ranks_per_node: int) -> Costs:
    """The cost of every op.

    An op uses the inter-node link if its group (for SEND_RECV: its pair) has ranks on several nodes, where rank r is
    on node r // ranks_per_node. A group of one rank costs nothing. Raises InvalidGraph if the split matrix of an
    ALL_TO_ALL does not have members x members entries.
    """
    if network.kind == "none":
        free = np.zeros(len(graph.ops), np.int64)
        return Costs(free, free)
    rings = _ring_costs(op_traffic(graph, ranks_per_node), network)
    if network.algorithm == "ring":
        return rings
    rows, trees = _trees(graph, network, ranks_per_node)
    chosen = rows[_chosen(network, trees, rings, rows)]
    costs = Costs(rings.latency.copy(), rings.transfer.copy())
    costs.latency[chosen], costs.transfer[chosen] = trees.latency[chosen], trees.transfer[chosen]
    return costs


def runs_along_trees(graph: Graph, network: Network, ranks_per_node: int) -> npt.NDArray[np.bool_]:
    """Which ops do, bool[ops]; where communication is free, `auto` chooses as if it were not."""
    along = np.zeros(len(graph.ops), np.bool_)
    if network.algorithm != "ring":
        rows, trees = _trees(graph, network, ranks_per_node)
        rings = _ring_costs(op_traffic(graph, ranks_per_node), network)
        along[rows[_chosen(network, trees, rings, rows)]] = True
    return along


def _ring_costs(traffic: Traffic, network: Network) -> Costs:
    """What ops cost of which none runs along trees."""
    intra, inter = network.intra, network.inter
    return Costs(
        latency=traffic.steps * np.where(traffic.across, inter.latency, intra.latency),
        transfer=np.where(traffic.across, inter.transfer_ns(traffic.nbytes), intra.transfer_ns(traffic.nbytes)),
    )


def _trees(graph: Graph, network: Network, ranks_per_node: int) -> tuple[Int64, Costs]:
    """The all_reduces of several members, and what they cost along trees; other ops cost nothing here."""
    groups = group_nodes(graph, ranks_per_node)
    group = graph.ops["group"]
    nodes = Nodes(groups.count[group], groups.longest[group])
    rows = np.flatnonzero((graph.ops["kind"] == OpKind.ALL_REDUCE) & (nodes.count + nodes.longest > 2))
    traffic = tree_traffic(Nodes(nodes.count[rows], nodes.longest[rows]), graph.ops["nbytes"][rows], PIPELINE_CHUNK)
    intra, inter = network.intra, network.inter
    latency, transfer = np.zeros((2, len(graph.ops)), np.int64)
    latency[rows] = traffic.inside * intra.latency + traffic.between * inter.latency
    across = traffic.between > 0
    transfer[rows] = np.where(across, inter.transfer_ns(traffic.nbytes), intra.transfer_ns(traffic.nbytes))
    return rows, Costs(latency, transfer)


def _chosen(network: Network, trees: Costs, rings: Costs, rows: Int64) -> npt.NDArray[np.bool_]:
    """Which of these rows run along trees."""
    along: npt.NDArray[np.bool_] = trees.total[rows] < rings.total[rows]
    return np.ones_like(along) if network.algorithm == "tree" else along


def op_traffic(graph: Graph, ranks_per_node: int) -> Traffic:
    """The steps and bytes of every op by the algorithm that runs; a group of one has none."""
    kind = graph.ops["kind"]
    members = np.array([len(group.ranks) for group in graph.groups], np.int64)[graph.ops["group"]]
    members[kind == OpKind.SEND_RECV] = 2
    steps, nbytes = np.zeros((2, len(graph.ops)), np.int64)
    size = graph.ops["nbytes"].copy()
    exchanges = np.flatnonzero(kind == OpKind.ALL_TO_ALL)
    size[exchanges] = _busiest_exchange(graph, exchanges, members[exchanges])
    for op_kind, algorithm in TRAFFIC.items():
        rows = np.flatnonzero((kind == op_kind) & (members > 1))
        steps[rows], nbytes[rows] = algorithm(members[rows], size[rows])
    return Traffic(members, size, steps, nbytes, _crosses_nodes(graph, ranks_per_node))


def _share(n: Int64, s: Int64, times: int = 1) -> Int64:
    """times x (n - 1)/n x s, rounded up."""
    return -(-times * (n - 1) * s // n)


def _chain(n: Int64, s: Int64) -> tuple[Int64, Int64]:
    """A pipelined chain: the first chunk passes n - 1 hops, the rest follows it at full bandwidth."""
    return n - 1, s + (n - 2) * np.minimum(s, PIPELINE_CHUNK)


Algorithm = Callable[[Int64, Int64], tuple[Int64, Int64]]

TRAFFIC: dict[OpKind, Algorithm] = {
    OpKind.ALL_REDUCE: lambda n, s: (2 * (n - 1), _share(n, s, 2)),
    OpKind.REDUCE_SCATTER: lambda n, s: (n - 1, _share(n, s)),
    # s is one member's input, so what is gathered is n times as much.
    OpKind.ALL_GATHER: lambda n, s: (n - 1, (n - 1) * s),
    OpKind.BROADCAST: _chain,
    OpKind.REDUCE: _chain,
    # Pairs of the root with every other member; s is one member's input, and all that the root holds.
    OpKind.GATHER: lambda n, s: (n - 1, (n - 1) * s),
    OpKind.SCATTER: lambda n, s: (n - 1, _share(n, s)),
    # s is what the busiest member exchanges with others.
    OpKind.ALL_TO_ALL: lambda n, s: (n - 1, s),
    # Dissemination: ceil(log2 n) rounds, what gloo runs and close to the tree that NCCL takes for so few bytes.
    OpKind.BARRIER: lambda n, s: (np.ceil(np.log2(n)).astype(np.int64), np.zeros_like(s)),
    OpKind.SEND_RECV: lambda n, s: (np.ones_like(n), s),
}
"""Steps and bytes of the busiest member, from the number of members n and the op's nbytes s (both int64 arrays).
Source: the loops of NCCL's device algorithms (ring all_reduce, reduce_scatter, all_gather; chain broadcast, reduce)."""


def _busiest_exchange(graph: Graph, ops: Int64, members: Int64) -> Int64:
    """The most bytes that one member sends to, or receives from, all others: int64[ops]."""
    first, last = graph.split_ptr[ops], graph.split_ptr[ops + 1]
    wrong = np.flatnonzero(last - first != members * members)
    if wrong.size:
        op, n, got = (int(column[wrong[0]]) for column in (ops, members, last - first))
        raise InvalidGraph(f"op {op}: the split matrix of {n} members has {got} entries, not {n * n}")
    cell = ranges(first, last)
    width = np.repeat(members, last - first)
    place = cell - np.repeat(first, last - first)
    sender, receiver = place // width, place % width
    moved = np.where(sender == receiver, 0, graph.splits[cell])
    ptr = pointers(members)
    base = np.repeat(ptr[:-1], last - first)
    sent, received = np.zeros((2, ptr[-1]), np.int64)
    np.add.at(sent, base + sender, moved)
    np.add.at(received, base + receiver, moved)
    busiest = np.maximum(sent, received)
    return np.maximum.reduceat(busiest, ptr[:-1]) if ops.size else busiest


def _crosses_nodes(graph: Graph, ranks_per_node: int) -> npt.NDArray[np.bool_]:
    spans = [min(g.ranks) // ranks_per_node != max(g.ranks) // ranks_per_node for g in graph.groups]
    across: npt.NDArray[np.bool_] = np.array(spans, np.bool_)[graph.ops["group"]]
    pairs = np.flatnonzero((graph.ops["kind"] == OpKind.SEND_RECV) & (np.diff(graph.post_ptr) > 0))
    ends = graph.posts[np.stack((graph.post_ptr[pairs], graph.post_ptr[pairs + 1] - 1))]
    lane = np.searchsorted(graph.lane_ptr, ends, side="right") - 1
    node = graph.lanes["rank"][lane] // ranks_per_node
    across[pairs] = node[0] != node[1]
    return across
