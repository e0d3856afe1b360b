"""The communication matrix: how many bytes go from which rank to which over a whole job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, OpKind, Table
from prism.core.levels import pointers, ranges
from prism.core.timeline.network import TRAFFIC
from prism.core.timeline.tree_links import tree_links
from prism.core.timeline.trees import nodes_of

Flow = tuple[Int64, Int64, Int64]  # sending ranks, receiving ranks, bytes


@dataclass(frozen=True)
class Trees:
    """Which ops run along trees, bool[ops], and over which nodes these go."""

    along: npt.NDArray[np.bool_]
    ranks_per_node: int


def communication_matrix(graph: Graph, place: Int64, trees: Trees | None = None) -> Int64:
    """Bytes sent from place to place, int64[places, places]; `place` (int64[world]) says where each rank counts.

    Messages and ALL_TO_ALL are exact. The other collectives are counted on the links that the algorithms of
    `prism.core.timeline.network` use: rings lead to the next group rank, chains start or end at the root, GATHER and
    SCATTER are pairs with the root; of `trees`, each link moves half of the bytes up and down again. A BARRIER moves
    nothing, nor does a rank to itself.
    """
    along = np.zeros(len(graph.ops), np.bool_) if trees is None else trees.along
    places = int(place.max(initial=-1)) + 1
    moved = np.zeros((places, places), np.int64)
    for source, target, nbytes in (
        _messages(graph),
        _exchanges(graph),
        *_collectives(graph, graph.ops[~along]),
        *_tree_sums(graph, graph.ops[along], 1 if trees is None else trees.ranks_per_node),
    ):
        away = source != target
        np.add.at(moved, (place[source[away]], place[target[away]]), nbytes[away])
    return moved


def _messages(graph: Graph) -> Flow:
    ops = np.flatnonzero(graph.ops["kind"] == OpKind.SEND_RECV)
    rank = graph.node_rank()
    sender, receiver = graph.posts[graph.post_ptr[ops]], graph.posts[graph.post_ptr[ops + 1] - 1]
    return rank[sender], rank[receiver], graph.ops["nbytes"][ops]


def _exchanges(graph: Graph) -> Flow:
    ops = np.flatnonzero(graph.ops["kind"] == OpKind.ALL_TO_ALL)
    first, last = graph.split_ptr[ops], graph.split_ptr[ops + 1]
    cell = ranges(first, last)
    member, ptr = _members(graph)
    group = np.repeat(graph.ops["group"][ops], last - first)
    width = np.diff(ptr)[group]
    place = cell - np.repeat(first, last - first)
    return member[ptr[group] + place // width], member[ptr[group] + place % width], graph.splits[cell]


Hops = Callable[[Int64, Int64, Int64, Int64], Flow]


def _ring(kind: OpKind) -> Hops:
    return lambda j, root, n, s: (j, (j + 1) % n, TRAFFIC[kind](n, s)[1])


_HOPS: dict[OpKind, Hops] = {
    OpKind.ALL_REDUCE: _ring(OpKind.ALL_REDUCE),
    OpKind.REDUCE_SCATTER: _ring(OpKind.REDUCE_SCATTER),
    OpKind.ALL_GATHER: _ring(OpKind.ALL_GATHER),
    # A chain of n members has n - 1 hops.
    OpKind.BROADCAST: lambda j, root, n, s: ((root + j) % n, (root + j + 1) % n, np.where(j < n - 1, s, 0)),
    OpKind.REDUCE: lambda j, root, n, s: ((root + j + 1) % n, (root + j) % n, np.where(j < n - 1, s, 0)),
    OpKind.GATHER: lambda j, root, n, s: (j, root, s),
    OpKind.SCATTER: lambda j, root, n, s: (root, j, -(-s // n)),
}
"""What the j-th of n members sends, from and to which group rank, of an op with nbytes s."""


def _tree_sums(graph: Graph, ops: Table, ranks_per_node: int) -> Iterator[Flow]:
    """The sums along trees, those of one group added up."""
    for row in np.unique(ops["group"]).tolist():
        ranks = graph.groups[row].ranks
        below, above = np.array(ranks)[tree_links(nodes_of(ranks, ranks_per_node))].T
        half = np.full(len(below), int((-(-ops["nbytes"][ops["group"] == row] // 2)).sum()))
        yield below, above, half
        yield above, below, half


def _collectives(graph: Graph, chosen: Table) -> Iterator[Flow]:
    """Per kind, the hops of all collectives; those of one group and root are added up before they are laid out."""
    member, ptr = _members(graph)
    for kind, hops in _HOPS.items():
        ops = chosen[chosen["kind"] == kind]
        pairs, row = np.unique(np.stack((ops["group"], ops["root"]), axis=1), axis=0, return_inverse=True)
        total = np.zeros(len(pairs), np.int64)
        np.add.at(total, row.ravel(), ops["nbytes"])
        group, root = pairs.T.astype(np.int64)
        size = np.diff(ptr)[group]
        laid = np.repeat(np.arange(len(pairs)), size)
        j = ranges(np.zeros_like(size), size)
        source, target, nbytes = hops(j, root[laid], size[laid], total[laid])
        start = ptr[group[laid]]
        yield member[start + source], member[start + target], nbytes


def _members(graph: Graph) -> tuple[Int64, Int64]:
    """The global ranks of all groups, one after the other, and where each group starts."""
    member = np.array([rank for group in graph.groups for rank in group.ranks], np.int64)
    return member, pointers(np.array([len(group.ranks) for group in graph.groups], np.int64))
