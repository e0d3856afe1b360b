"""Expansion: the graph of a job whose mesh is longer along one dimension, from the graph of the job as it is.

Each new rank does what the old rank does whose coordinate is its own modulo the old extent (mesh.py beside this). A
group whose members share one coordinate is copied for each new one; a group that has, with each member, all that differ
from it in that coordinate comes to span the longer dimension. Messages stay at their coordinate. What lies otherwise
does not tell what the job does at another extent: it is refused, or left out if it is a group that nobody uses. The
input of each member keeps its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind, OpKind, Table
from prism.core.levels import pointers, ranges
from prism.core.what_if.mesh import Stretch, refuse_too_large, stretch
from prism.core.what_if.stretched_groups import StretchedGroups, stretched_groups
from prism.core.what_if.stretched_ops import StretchedOps, stretched_ops
from prism.core.what_if.stretched_splits import stretched_splits


def expand(graph: Graph, mesh: Mapping[str, int], over: str, to: int) -> Graph:
    """The graph of the same job with extent `to` along a dimension of its mesh (dimension to extent, row-major).

    Raises ValueError if mesh, dimension or extent do not fit the graph; NotExpandable naming a group that is neither
    copied nor stretched or a message that leads along the dimension, or if the graph would become too large.
    """
    along = stretch(mesh, over, to, graph.world_size)
    refuse_too_large(len(graph.nodes) // along.extent * to, "nodes")
    groups = stretched_groups(graph.groups, set(graph.ops["group"].tolist()), along)
    ranks = _ranks(graph, along)
    ops = stretched_ops(graph, along, groups)
    nodes = graph.nodes[ranges(ranks.first, ranks.last)]
    copy = np.repeat(ranks.copy, ranks.last - ranks.first)
    post_ptr, posts = _posts(graph, along, groups, ops, ranks)
    nodes["ref"][posts] = np.repeat(np.arange(len(ops.table)), np.diff(post_ptr))
    wait_ptr, wait_ops = _waits(graph, ops, nodes, copy)
    _number_events(graph, nodes, copy)
    split_ptr, splits = stretched_splits(graph, groups, ops)
    return replace(
        graph, world_size=ranks.copy.size, groups=groups.groups, lanes=ranks.lanes, lane_ptr=ranks.lane_ptr,
        nodes=nodes, ops=ops.table, post_ptr=post_ptr, posts=posts, wait_ptr=wait_ptr, wait_ops=wait_ops,
        split_ptr=split_ptr, splits=splits,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Of each new rank: which copy it is, the old nodes that it repeats (first to last), and where its own begin."""

    copy: Int64
    first: Int64
    last: Int64
    start: Int64
    lanes: Table
    lane_ptr: Int64


def _ranks(graph: Graph, along: Stretch) -> _Ranks:
    old, copy = along.original(np.arange(graph.world_size // along.extent * along.to))
    bounds = np.searchsorted(graph.lanes["rank"], np.arange(graph.world_size + 1))
    first, last = bounds[old], bounds[old + 1]
    lanes = graph.lanes[ranges(first, last)]
    lanes["rank"] = np.repeat(np.arange(old.size), last - first)
    lane_ptr = pointers(np.diff(graph.lane_ptr)[ranges(first, last)])
    start = lane_ptr[pointers(last - first)[:-1]]
    return _Ranks(copy, graph.lane_ptr[first], graph.lane_ptr[last], start, lanes, lane_ptr)


def _posts(
    graph: Graph, along: Stretch, groups: StretchedGroups, ops: StretchedOps, ranks: _Ranks
) -> tuple[Int64, Int64]:
    """`post_ptr` and `posts`: the nodes that repeat those of the old op's members, member by member."""
    # The members of a message are no group: behind the table of all groups' members comes one more row, of a pair.
    member_ptr = np.append(groups.member_ptr, groups.member_ptr[-1] + 2)
    member, member_copy = np.append(groups.member, (0, 1)), np.append(groups.copy, (0, 0))
    kind, group = ops.table["kind"], graph.ops["group"][ops.source]
    row = np.where(kind == OpKind.SEND_RECV, len(graph.groups), group)
    first, last = member_ptr[row], member_ptr[row + 1]
    at, op = ranges(first, last), np.repeat(np.arange(row.size), last - first)
    old = graph.posts[graph.post_ptr[ops.source[op]] + member[at]]
    new = along.rank(graph.node_rank()[old], ops.copy[op] + member_copy[at])
    return pointers(last - first), old - ranks.first[new] + ranks.start[new]


def _waits(graph: Graph, ops: StretchedOps, nodes: Table, copy: Int64) -> tuple[Int64, Int64]:
    """`wait_ptr` and `wait_ops` of all WAITs, in the order of nodes, by which they are numbered anew."""
    waits = np.flatnonzero(nodes["kind"] == NodeKind.WAIT)
    row = nodes["ref"][waits]
    nodes["ref"][waits] = np.arange(waits.size)
    first, last = graph.wait_ptr[row], graph.wait_ptr[row + 1]
    return pointers(last - first), ops.of(graph.wait_ops[ranges(first, last)], np.repeat(copy[waits], last - first))


def _number_events(graph: Graph, nodes: Table, copy: Int64) -> None:
    """Give the events of each copy of a rank numbers of their own."""
    of = np.flatnonzero((nodes["kind"] == NodeKind.RECORD) | (nodes["kind"] == NodeKind.WAIT_EVENT))
    count = nodes["ref"][of].max(initial=-1) + 1
    nodes["ref"][of] += count * copy[of]
