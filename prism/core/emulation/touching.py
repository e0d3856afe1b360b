"""Group reduction: which ops of a graph touch a few sandbox ranks, and what of them has to be made real.

In emulation the sandbox ranks run the program; all other ranks are virtual. An op *touches* if a sandbox rank posts it.
Only the groups of touching ops exist, and in them only the sandbox members and what lies between them: round the ring
of an op's N members, each sandbox member is followed by an *arc* of m virtual members, up to the next sandbox member
(which is itself, if it is the only one). All other ops happen among virtual ranks and are nothing but times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prism.core.graph import DTYPES, REDUCES, Graph, Group, Int64, NodeKind, OpKind
from prism.core.levels import pointers, ranges
from prism.core.timeline.replay import Plan


@dataclass(frozen=True, slots=True)
class Touching:
    """The touching ops, numbered from 0 in an order in which each comes after all that it depends on.

    The places of an op's members are those of its posts: group ranks, or 0 for a message's sender and 1 for its
    receiver. `member`, `rank`, `node` and `arc` have a row for each sandbox member of each op, op by op, places
    ascending.
    """

    sandbox: tuple[int, ...]  # global ranks, ascending
    op: Int64  # touching ops: the row in the graph's ops
    number: Int64  # ops of the graph: the number among the touching ones, -1 for none
    prev: Int64  # touching ops: the number of the op before it in its channel, -1
    size: Int64  # touching ops: how many members post it
    groups: Int64  # the rows in the graph's groups that exist, ascending
    member_ptr: Int64  # touching ops + 1
    member: Int64  # its place
    rank: Int64  # its global rank
    node: Int64  # its POST node
    arc: Int64  # how many virtual members follow it

    def virtual(self, number: int) -> Int64:
        """The places of an op's virtual members, arc by arc in the order of the ring."""
        rows = slice(self.member_ptr[number], self.member_ptr[number + 1])
        first = self.member[rows] + 1
        places: Int64 = ranges(first, first + self.arc[rows]) % self.size[number]
        return places

    def posts(self, rank: int) -> Int64:
        """The touching ops that a sandbox rank posts, lane by lane in program order."""
        rows = np.flatnonzero(self.rank == rank)
        op = np.repeat(np.arange(len(self.op)), np.diff(self.member_ptr))
        return op[rows[np.argsort(self.node[rows])]]


def find_touching(graph: Graph, plan: Plan, op_start: Int64, sandbox: Sequence[int]) -> Touching:
    """The ops that touch these ranks, in the order in which they start when replayed.

    op_start: int64[ops] ns, as in the timeline of the graph; ops that start at one time are ordered by what depends on
    what. Raises ValueError if there is no sandbox rank, or one that is outside the world or named twice.
    """
    _check(graph, sandbox)
    posts = (graph.nodes["kind"] == NodeKind.POST) & np.isin(graph.node_rank(), sandbox)
    touched = np.unique(graph.nodes["ref"][posts]).astype(np.int64)
    op = touched[np.lexsort((plan.op_point[touched], op_start[touched]))]
    number = np.full(len(graph.ops), -1)
    number[op] = np.arange(len(op))
    prev = graph.ops["prev"][op]
    first, last = graph.post_ptr[op], graph.post_ptr[op + 1]
    node, size = graph.posts[ranges(first, last)], last - first
    real = np.flatnonzero(posts[node])
    row = np.repeat(np.arange(len(op)), size)[real]
    member, member_ptr = real - pointers(size)[row], pointers(np.bincount(row, minlength=len(op)))
    rank, arc = _ranks(graph, node[real]), _arcs(member, member_ptr, size)
    return Touching(
        sandbox=tuple(sorted(sandbox)), op=op, number=number, prev=np.where(prev >= 0, number[prev], -1), size=size,
        groups=np.unique(graph.ops["group"][op]).astype(np.int64), member_ptr=member_ptr, member=member, rank=rank,
        node=node[real], arc=arc,
    )  # fmt: skip


class Side(NamedTuple):
    """What one member posts of an op, by the graph; ranks are group ranks, -1 is none."""

    kind: OpKind
    reduce: str
    dtype: str
    group: Group
    root: int
    peer: int
    tag: int
    sends: bool
    nbytes: int  # of the op: the most that any member brings


def side(graph: Graph, node: int) -> Side:
    """What a POST node posts."""
    number = int(graph.nodes["ref"][node])
    op = graph.ops[number]
    kind, group = OpKind(op["kind"]), graph.groups[op["group"]]
    posts = graph.posts[graph.post_ptr[number] : graph.post_ptr[number + 1]]
    place = int(np.flatnonzero(posts == node)[0])
    is_message = kind is OpKind.SEND_RECV
    peer = group.ranks.index(int(_ranks(graph, posts[1 - place]))) if is_message else -1
    return Side(
        kind=kind,
        reduce=REDUCES[op["reduce"]],
        dtype=DTYPES[op["dtype"]],
        group=group,
        root=int(op["root"]),
        peer=peer,
        tag=int(op["tag"]),
        sends=is_message and place == 0,
        nbytes=int(op["nbytes"]),
    )


def _ranks(graph: Graph, nodes: Int64) -> Int64:
    lanes = np.searchsorted(graph.lane_ptr, nodes, side="right") - 1
    return graph.lanes["rank"][lanes].astype(np.int64)


def _arcs(member: Int64, member_ptr: Int64, size: Int64) -> Int64:
    """How many places lie between each sandbox member and the next one round the ring of its op."""
    after = np.append(member[1:], 0)
    last = member_ptr[1:] - 1
    after[last] = member[member_ptr[:-1]] + size
    arcs: Int64 = after - member - 1
    return arcs


def _check(graph: Graph, sandbox: Sequence[int]) -> None:
    outside = [rank for rank in sandbox if not 0 <= rank < graph.world_size]
    if outside:
        raise ValueError(f"rank {outside[0]} is outside the world; valid ranks are 0 to {graph.world_size - 1}")
    if not sandbox or len(frozenset(sandbox)) < len(sandbox):
        raise ValueError(f"sandbox ranks {list(sandbox)}: name each once, and at least one")
