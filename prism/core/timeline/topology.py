"""How nodes are wired: which links an op takes, and how much of each at the speed that it has to itself.

Each rank has a link inside its node and a NIC, and each direction is a link of its own. NICs end at switches, and what
goes from one switch to another takes the uplinks of both, which are shared by all ranks of the switch. `rail`: one
switch for the ranks that have the same place in their nodes; rings are laid along rails, as NCCL lays them. `two-tier`:
one switch for the nodes of a pod. An op's traffic is the sends of its algorithm from member to member, in group order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from prism.core.graph import Graph, Int64, OpKind
from prism.core.timeline.network import Network
from prism.core.timeline.sharing import FULL, Loads

RINGS = (OpKind.ALL_REDUCE, OpKind.REDUCE_SCATTER, OpKind.ALL_GATHER)
CHAINS = (OpKind.BROADCAST, OpKind.REDUCE)
INSIDE, NIC, UPLINK = range(3)


@dataclass(frozen=True, slots=True)
class Topology:
    """kind; pods (for two-tier); oversubscription: the bandwidth of a switch's ranks over that of its uplink."""

    kind: Literal["rail", "two-tier"]
    ranks_per_node: int
    pods: int = 1
    oversubscription: float = 1.0


class _Sends(NamedTuple):
    """Who sends to whom (global ranks), and how much: `amount` of what the busiest member sends, which is `whole`."""

    sender: Int64
    receiver: Int64
    amount: Int64
    whole: int


def op_loads(graph: Graph, network: Network, topology: Topology) -> list[Loads]:
    """For every op what it takes of which links, each link once, in the order of links."""
    wiring = _Wiring(graph.world_size, network, topology)
    known: dict[tuple[object, ...], Loads] = {}
    loads = []
    for op in range(len(graph.ops)):
        ranks, key = _ranks_of(graph, op)
        if key not in known:
            known[key] = wiring.loads(OpKind(graph.ops["kind"][op]), _sends(graph, op, ranks), ranks)
        loads.append(known[key])
    return loads


def _ranks_of(graph: Graph, op: int) -> tuple[Int64, tuple[object, ...]]:
    """The members of an op, and what decides its loads."""
    row = graph.ops[op]
    if row["kind"] == OpKind.SEND_RECV:
        posts = graph.posts[graph.post_ptr[op] : graph.post_ptr[op + 1]]
        lanes = np.searchsorted(graph.lane_ptr, posts, side="right") - 1
        ranks = graph.lanes["rank"][lanes].astype(np.int64)
        return ranks, (OpKind.SEND_RECV, *ranks.tolist())
    splits = graph.splits[graph.split_ptr[op] : graph.split_ptr[op + 1]]
    key = (int(row["kind"]), int(row["group"]), int(row["root"]), hashlib.sha256(splits.tobytes()).digest())
    return np.array(graph.groups[row["group"]].ranks, np.int64), key


def _sends(graph: Graph, op: int, ranks: Int64) -> _Sends:
    kind, root, n = graph.ops["kind"][op], int(graph.ops["root"][op]), len(ranks)
    others = np.delete(ranks, root) if root >= 0 else ranks
    one = np.ones(1, np.int64)
    if kind in RINGS:
        return _Sends(ranks, np.roll(ranks, -1), one, 1)
    if kind in CHAINS:
        # Around the ring from the root on (broadcast), or up to the root.
        chain = np.roll(ranks, -root if kind == OpKind.BROADCAST else -root - 1)
        return _Sends(chain[:-1], chain[1:], one, 1)
    if kind == OpKind.GATHER:
        return _Sends(others, ranks[[root]], one, n - 1)
    if kind == OpKind.SCATTER:
        return _Sends(ranks[[root]], others, one, n - 1)
    if kind == OpKind.ALL_TO_ALL:
        moved = graph.splits[graph.split_ptr[op] : graph.split_ptr[op + 1]].reshape(n, n).copy()
        np.fill_diagonal(moved, 0)
        whole = max(moved.sum(axis=0).max(initial=0), moved.sum(axis=1).max(initial=0))
        return _Sends(np.repeat(ranks, n), np.tile(ranks, n), moved.ravel(), int(whole))
    if kind == OpKind.SEND_RECV:
        return _Sends(ranks[:1], ranks[1:], one, 1)
    return _Sends(ranks[:0], ranks[:0], one, 1)  # a barrier moves nothing


class _Wiring:
    def __init__(self, world_size: int, network: Network, topology: Topology) -> None:
        ranks = np.arange(world_size)
        self._network, self._kind = network, topology.kind
        self._node = ranks // topology.ranks_per_node
        nodes_per_pod = -(-(int(self._node[-1]) + 1) // topology.pods)
        self._switch = ranks % topology.ranks_per_node if topology.kind == "rail" else self._node // nodes_per_pod
        self._uplink = np.bincount(self._switch) * network.inter.bandwidth / topology.oversubscription
        self._world = world_size

    def loads(self, kind: OpKind, sends: _Sends, ranks: Int64) -> Loads:
        """What an op takes; at full speed its busiest member fills the link class that the op runs on."""
        across = bool((self._node[ranks] != self._node[ranks[0]]).any()) if ranks.size else False
        speed = (self._network.inter if across else self._network.intra).bandwidth
        used: dict[int, int] = {}
        for link, amount in self._taken(kind, sends):
            used[link] = used.get(link, 0) + amount
        return tuple(
            (link, used[link] * speed * FULL // (sends.whole * self._bandwidth(link))) for link in sorted(used)
        )

    def _taken(self, kind: OpKind, sends: _Sends) -> list[tuple[int, int]]:
        sender, receiver, amount = np.broadcast_arrays(sends.sender, sends.receiver, sends.amount)
        apart = (self._node[sender] != self._node[receiver]) & (amount > 0)
        inside = (self._node[sender] == self._node[receiver]) & (sender != receiver) & (amount > 0)
        between = apart & (self._switch[sender] != self._switch[receiver])
        if self._kind == "rail" and kind in RINGS + CHAINS:
            between[:] = False
        taken: list[tuple[int, int]] = []
        for tier, chosen, ends in (
            (INSIDE, inside, (sender, receiver)),
            (NIC, apart, (sender, receiver)),
            (UPLINK, between, (self._switch[sender], self._switch[receiver])),
        ):
            for direction, end in enumerate(ends):
                links = (2 * tier + direction) * self._world + end[chosen]
                taken += zip(links.tolist(), amount[chosen].tolist(), strict=True)
        return taken

    def _bandwidth(self, link: int) -> int:
        tier, place = link // (2 * self._world), link % self._world
        if tier == UPLINK:
            return max(1, int(self._uplink[place]))
        return (self._network.intra if tier == INSIDE else self._network.inter).bandwidth
