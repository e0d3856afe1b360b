"""Unfolding: the graph of all ranks, from what the representatives of a folded world did.

Each rank has the lane of its representative. An operation of the representatives is found again in every group that
moving its own group gives, a message from every rank that its sender stands for; see seats.py for why that is all.
What comes out is the graph that a capture of all ranks gives, if they do behave alike, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prism.core.folding.copies import Copies, Ends, refuse_too_large
from prism.core.folding.orbits import Names, orbits
from prism.core.folding.shape import Folding
from prism.core.graph import LANE, NODE, Graph, Int64, NodeKind, Stream, Table
from prism.core.levels import pointers, ranges
from prism.core.record import RankRecord
from prism.core.stage.building import Lanes
from prism.core.stage.op import CommGroup, Op


def unfold(
    records: Sequence[RankRecord], ops: Sequence[Op], groups: Sequence[CommGroup], names: Names, folding: Folding
) -> Graph:
    """The bare graph of all ranks; raises NotFoldable if it would be too large."""
    done = [op for op in ops if op.done]
    ends = Ends(done)
    lanes = Lanes(ends.of_post)
    for record in records:
        lanes.add(record)
    copies = Copies(folding, orbits(folding, groups, names), done)
    ranks = _Ranks(folding, records, np.array(lanes.lengths, np.int64))
    nodes = ranks.nodes(np.array(lanes.rows, NODE))
    post_ptr, rank, end = copies.posts(ends)
    posts = ranks.node(rank, np.array([lanes.posts[row] for row in ends.rows], np.int64)[end])
    nodes["ref"][posts] = np.repeat(np.arange(len(copies.order)), np.diff(post_ptr))
    wait_ptr, wait_ops = _waits(lanes.waits, nodes, ranks, copies, ends)
    split_ptr, splits = copies.splits()
    return Graph(
        world_size=folding.world_size,
        groups=copies.orbits.groups,
        lanes=np.array([(rank, Stream.HOST, 0) for rank in range(folding.world_size)], LANE),
        lane_ptr=ranks.lane_ptr, nodes=nodes, ops=copies.table(), post_ptr=post_ptr, posts=posts, wait_ptr=wait_ptr,
        wait_ops=wait_ops, split_ptr=split_ptr, splits=splits, sites=tuple(lanes.sites),
    )  # fmt: skip


class _Ranks:
    """All ranks: where they lie along the folded dimensions, and the nodes that each repeats of its representative."""

    def __init__(self, folding: Folding, records: Sequence[RankRecord], lengths: Int64) -> None:
        ranks = np.arange(folding.world_size)
        self.coordinates = folding.coordinates(ranks)
        lane = np.empty(folding.world_size, np.int64)
        lane[[record.rank for record in records]] = np.arange(len(records))
        lane = lane[ranks - folding.offset(self.coordinates)]
        self.first = pointers(lengths)[lane]
        self.lane_ptr = pointers(lengths[lane])
        refuse_too_large(int(self.lane_ptr[-1]), "nodes")

    def nodes(self, own: Table) -> Table:
        """The nodes of all ranks."""
        return own[ranges(self.first, self.first + np.diff(self.lane_ptr))]

    def node(self, rank: Int64, home: Int64) -> Int64:
        """Where ranks repeat nodes of their representatives."""
        found: Int64 = home - self.first[rank] + self.lane_ptr[rank]
        return found

    def of_nodes(self, nodes: Int64) -> Int64:
        """The ranks of nodes, ascending."""
        return np.searchsorted(self.lane_ptr, nodes, side="right") - 1


def _waits(
    own: Sequence[Sequence[int]], nodes: Table, ranks: _Ranks, copies: Copies, ends: Ends
) -> tuple[Int64, Int64]:
    """`wait_ptr` and `wait_ops` of all WAITs, in the order of nodes, by which they are numbered anew."""
    waits = np.flatnonzero(nodes["kind"] == NodeKind.WAIT)
    row = nodes["ref"][waits]
    nodes["ref"][waits] = np.arange(waits.size)
    ptr = pointers(np.array([len(of) for of in own], np.int64))
    awaited = np.array([end for of in own for end in of], np.int64)
    first, last = ptr[row], ptr[row + 1]
    end = awaited[ranges(first, last)]
    at = np.repeat(ranks.coordinates[ranks.of_nodes(waits)], last - first, axis=0)
    op = np.searchsorted(ends.ptr, end, side="right") - 1
    receives = copies.message[op] & (end > ends.ptr[op])
    at = (at - np.where(receives[:, None], copies.away[op], 0)) % np.array(copies.folding.extents, np.int64)
    return pointers(last - first), copies.op(op, at)
