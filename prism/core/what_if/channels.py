"""Channels as their members see them: the place of each post and each wait in what runs serially.

A member of a channel is a *side* of it: of a message the sender or the receiver, of collectives a rank of the group.
Each side posts the ops of its channel in their order, so a post is told by its side and by how many came before. An op
that is waited for is told by how many posts ago the side posted it, if that is the same for all that it waits for, as
where each post is waited for at once. Else it is told as the one after that which the side waited for last, if it is.
Both stay true when parts of a lane are repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind
from prism.core.levels import pointers, ranges

NEXT = 0
"""The distance of the op after the one that its side waited for last."""


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a graph in the order of its ops, and their sides in the order of members."""

    of_op: Int64  # ops
    first: Int64  # channels: their first op
    side_ptr: Int64  # channels + 1: the sides of channel c are side_ptr[c]:side_ptr[c + 1]
    side: Int64  # nodes: of a POST the side that posts, else -1
    rank: Int64  # sides


@dataclass(frozen=True, slots=True)
class Waits:
    """What is waited for, a row an op, in the order of WAIT nodes."""

    node: Int64
    op: Int64
    side: Int64
    distance: Int64  # NEXT, or how many posts ago the side posted the op (1: its last)


def channels(graph: Graph) -> Channels:
    """The channels and sides of a graph; raises ValueError where a rank posts ops in another order than they run."""
    leads = graph.ops["prev"] < 0
    of_op, first = np.cumsum(leads) - 1, np.flatnonzero(leads)
    side_ptr = pointers(np.diff(graph.post_ptr)[first])
    of_post = np.repeat(np.arange(len(graph.ops)), np.diff(graph.post_ptr))
    of_side = side_ptr[of_op[of_post]] + np.arange(len(of_post)) - graph.post_ptr[of_post]
    side = np.full(len(graph.nodes), -1)
    side[graph.posts] = of_side
    rank = np.zeros(side_ptr[-1], np.int64)
    rank[of_side] = graph.node_rank()[graph.posts]
    posts = np.flatnonzero(side >= 0)
    op = graph.nodes["ref"][posts]
    wrong = posts[first[of_op[op]] + running(side[posts]) != op]
    if wrong.size:
        group = graph.groups[graph.ops["group"][graph.nodes["ref"][wrong[0]]]].name
        raise ValueError(f"rank {rank[side[wrong[0]]]} posts on group {group} in another order than the ops run")
    return Channels(of_op, first, side_ptr, side, rank)


def waits(graph: Graph, within: Channels) -> Waits:
    """What the ranks of a graph wait for, told by sides and distances."""
    node = np.flatnonzero(graph.nodes["kind"] == NodeKind.WAIT)
    row = graph.nodes["ref"][node]
    first, last = graph.wait_ptr[row], graph.wait_ptr[row + 1]
    op, node = graph.wait_ops[ranges(first, last)], np.repeat(node, last - first)
    side = _waiting_sides(graph, within, node, op)
    number = op - within.first[within.of_op[op]]
    order = np.argsort(side, kind="stable")
    follows = np.flatnonzero(np.diff(side[order], prepend=-1) == 0)
    before = np.full(len(op), -1)
    before[order[follows]] = number[order[follows - 1]]
    ago = posted_before(within.side, side, node) - number
    low, high = np.full(len(within.rank), np.iinfo(np.int64).max), np.zeros(len(within.rank), np.int64)
    np.minimum.at(low, side, ago)
    np.maximum.at(high, side, ago)
    return Waits(node, op, side, np.where((low < high)[side] & (number == before + 1), NEXT, ago))


def running(keys: Int64) -> Int64:
    """How many equal keys come before each, int64[keys]."""
    order = np.argsort(keys, kind="stable")
    index = np.arange(len(keys))
    begins = np.diff(keys[order], prepend=-1) != 0
    count = np.empty(len(keys), np.int64)
    count[order] = index - np.maximum.accumulate(np.where(begins, index, 0))
    return count


def posted_before(side_of_node: Int64, side: Int64, node: Int64) -> Int64:
    """How often these sides have posted before these nodes; side_of_node: of each POST its side, else -1."""
    size = len(side_of_node)
    posts = np.flatnonzero(side_of_node >= 0)
    places = np.sort(side_of_node[posts] * size + posts)
    return np.searchsorted(places, side * size + node) - np.searchsorted(places, side * size)


def awaited(side: Int64, distance: Int64, posted: Int64) -> Int64:
    """The number in its channel of each op that is waited for; posted: how often the side has posted before."""
    order = np.argsort(side, kind="stable")
    side, distance, posted = side[order], distance[order], posted[order]
    index = np.arange(len(order))
    known = (np.diff(side, prepend=-1) != 0) | (distance != NEXT)
    last_known = np.maximum.accumulate(np.where(known, index, 0))
    number = np.empty(len(order), np.int64)
    number[order] = np.where(distance == NEXT, 0, posted - distance)[last_known] + index - last_known
    return number


def _waiting_sides(graph: Graph, within: Channels, node: Int64, op: Int64) -> Int64:
    """For each op that is waited for at a node, the side of it that the waiting rank is."""
    ranks, world = graph.node_rank(), graph.world_size
    of_post = np.repeat(np.arange(len(graph.ops)), np.diff(graph.post_ptr))
    places = of_post * world + ranks[graph.posts]
    order = np.argsort(places, kind="stable")
    at = np.searchsorted(places[order], op * world + ranks[node])
    return within.side[graph.posts[order[at]]]
