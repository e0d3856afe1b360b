"""The lanes that were run: what calibration times, and what its durations are in the graph of all ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from prism.core.folding.shape import Folding
from prism.core.graph import Graph, Int64, NodeKind
from prism.core.levels import pointers, ranges

Bool = npt.NDArray[np.bool_]

T = TypeVar("T", bound=np.generic)


def own_lanes(graph: Graph, folding: Folding) -> Graph:
    """The graph with the lanes of the representatives alone: of ops their posts are left, of splits what they move.

    Ranks and groups are those of the full graph.
    """
    lanes = np.flatnonzero(np.isin(graph.lanes["rank"], folding.representatives))
    first, last = graph.lane_ptr[lanes], graph.lane_ptr[lanes + 1]
    chosen = ranges(first, last)
    number = np.full(len(graph.nodes), -1)
    number[chosen] = np.arange(chosen.size)
    nodes = graph.nodes[chosen]
    own = number[graph.posts] >= 0
    count = np.diff(pointers(own.astype(np.int64))[graph.post_ptr])
    ops = np.flatnonzero(count)
    op_number = np.full(len(graph.ops) + 1, -1)
    op_number[ops] = np.arange(ops.size)
    table = graph.ops[ops]
    table["prev"] = op_number[table["prev"]]
    posting, waits = nodes["kind"] == NodeKind.POST, np.flatnonzero(nodes["kind"] == NodeKind.WAIT)
    nodes["ref"][posting] = op_number[nodes["ref"][posting]]
    row = nodes["ref"][waits]
    nodes["ref"][waits] = np.arange(waits.size)
    begin, end = graph.wait_ptr[row], graph.wait_ptr[row + 1]
    split_ptr, splits = _splits(graph, folding, ops, own)
    return replace(
        graph, lanes=graph.lanes[lanes], lane_ptr=pointers(last - first), nodes=nodes, ops=table,
        post_ptr=pointers(count[ops]), posts=number[graph.posts[own]], wait_ptr=pointers(end - begin),
        wait_ops=op_number[graph.wait_ops[ranges(begin, end)]], split_ptr=split_ptr, splits=splits,
    )  # fmt: skip


def spread(graph: Graph, folding: Folding, values: npt.NDArray[T]) -> npt.NDArray[T]:
    """The values of all nodes, [nodes], from those of the nodes of `own_lanes`."""
    rank = graph.lanes["rank"].astype(np.int64)
    home = rank - folding.offset(folding.coordinates(rank))
    own = np.flatnonzero(home == rank)
    lengths = np.diff(graph.lane_ptr)
    start = np.empty(rank.size, np.int64)
    start[own] = pointers(lengths[own])[:-1]
    # The lanes of a rank lie together, as those of its representative do, in the same order.
    within = np.arange(rank.size) - np.searchsorted(rank, rank)
    first = start[np.searchsorted(rank, home) + within]
    return values[ranges(first, first + lengths)]


def _splits(graph: Graph, folding: Folding, ops: Int64, own: Bool) -> tuple[Int64, Int64]:
    """The splits between those that run: what one sends to another, and to all that the other stands for."""
    made = [_own_matrix(graph, folding, op, own) for op in ops.tolist()]
    return pointers(np.array([one.size for one in made], np.int64)), np.concatenate([np.empty(0, np.int64), *made])


def _own_matrix(graph: Graph, folding: Folding, op: int, own: Bool) -> Int64:
    matrix = graph.splits[graph.split_ptr[op] : graph.split_ptr[op + 1]]
    if not matrix.size:
        return matrix
    ranks = np.array(graph.groups[graph.ops["group"][op]].ranks, np.int64)
    rows = np.flatnonzero(own[graph.post_ptr[op] : graph.post_ptr[op + 1]])
    home = ranks - folding.offset(folding.coordinates(ranks))
    together: Int64 = matrix.reshape(ranks.size, ranks.size)[rows] @ (home[:, None] == ranks[rows])
    return together.ravel()
