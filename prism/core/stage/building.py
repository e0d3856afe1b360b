"""Building the graph: the steps of all ranks and the operations that tie them, in canonical order.

The order of groups, operations and nodes follows from names, numbers and program order alone, never from who came
first, so two captures of one program give the same graph, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prism.core.graph import (
    DTYPES,
    ITEMSIZE,
    LANE,
    NODE,
    OP,
    REDUCES,
    Graph,
    Group,
    Int64,
    NodeKind,
    OpKind,
    Stream,
    Table,
)
from prism.core.record import MarkStep, PostStep, RankRecord, WaitStep
from prism.core.stage.matching import Matcher
from prism.core.stage.op import CommGroup, Op, Post


def build_graph(records: Sequence[RankRecord], matcher: Matcher) -> Graph:
    """The bare graph of what the ranks did; operations that never completed are left out."""
    groups = sorted(matcher.groups, key=group_key)
    position = {group.index: i for i, group in enumerate(groups)}
    ops = sorted((op for op in matcher.ops if op.done), key=lambda op: (position[op.group.index], op.channel, op.seq))
    index = {op.number: i for i, op in enumerate(ops)}
    of_post = {(p.rank, p.handle): index[op.number] for op in ops for p in op.posts.values()}
    lanes = Lanes(of_post)
    for record in records:
        lanes.add(record)
    return Graph(
        world_size=len(records),
        groups=tuple(Group(g.name, g.ranks, g.backend) for g in groups),
        lanes=np.array([(r.rank, Stream.HOST, 0) for r in records], dtype=LANE),
        lane_ptr=_pointers(lanes.lengths),
        nodes=np.array(lanes.rows, dtype=NODE),
        ops=op_table(ops, position),
        post_ptr=_pointers([len(op.members) for op in ops]),
        posts=np.array([lanes.posts[i, p.rank, p.handle] for i, op in enumerate(ops) for p in _posts(op)], np.int64),
        wait_ptr=_pointers([len(ops_of) for ops_of in lanes.waits]),
        wait_ops=np.array([op for ops_of in lanes.waits for op in ops_of], np.int64),
        split_ptr=_pointers([len(op.members) ** 2 if op.call.kind is OpKind.ALL_TO_ALL else 0 for op in ops]),
        splits=_splits(ops),
        sites=tuple(lanes.sites),
    )


class Lanes:
    """The nodes of all ranks, lane by lane, each communication node with the compute segment before it."""

    def __init__(self, of_post: dict[tuple[int, int], int]) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.lengths: list[int] = []
        self.waits: list[list[int]] = []
        self.posts: dict[tuple[int, int, int], int] = {}
        self.sites: dict[str, int] = {}
        self._of_post = of_post

    def add(self, record: RankRecord) -> None:
        start, iteration = len(self.rows), 0
        for step in record.steps:
            self.rows.append((NodeKind.COMPUTE, -1, -1, 0))
            match step:
                case PostStep():
                    self._post(record.rank, step)
                case WaitStep():
                    self._wait(record.rank, step)
                case MarkStep():
                    self.rows.append((NodeKind.MARK, iteration, -1, 0))
                    iteration += 1
        self.lengths.append(len(self.rows) - start)

    def _post(self, rank: int, step: PostStep) -> None:
        op = self._of_post.get((rank, step.handle))
        if op is None:  # never completed: what is left of the post is its compute segment
            return
        self.posts[op, rank, step.handle] = len(self.rows)
        self.rows.append((NodeKind.POST, op, self._site(step.site), 0))

    def _wait(self, rank: int, step: WaitStep) -> None:
        ops = [self._of_post[rank, h] for h in step.handles if (rank, h) in self._of_post]
        self.rows.append((NodeKind.WAIT, len(self.waits), self._site(step.site), 0))
        self.waits.append(ops)

    def _site(self, site: str) -> int:
        return self.sites.setdefault(site, len(self.sites)) if site else -1


def group_key(group: CommGroup) -> tuple[int, str, tuple[int, ...], int]:
    # Numbers sort as numbers: torch names its groups "0", "1", ..., "10".
    return (len(group.name), group.name, group.ranks, group.generation)


def _posts(op: Op) -> list[Post]:
    return [op.posts[m] for m in range(len(op.members))]


def op_table(ops: Sequence[Op], position: dict[int, int]) -> Table:
    table = np.zeros(len(ops), dtype=OP)
    last: dict[tuple[int, tuple[int, ...]], int] = {}
    for i, op in enumerate(ops):
        group, call = position[op.group.index], op.call
        nbytes = max(p.call.count for p in op.posts.values()) * ITEMSIZE[call.dtype]
        tag = op.channel[2] if op.channel else -1
        previous = last.get((group, op.channel), -1)
        last[group, op.channel] = i
        row = (call.kind, REDUCES.index(call.reduce), DTYPES.index(call.dtype), group, op.seq, call.root, tag)
        table[i] = (*row, nbytes, previous)
    return table


def _splits(ops: Sequence[Op]) -> Int64:
    values: list[int] = []
    for op in ops:
        if op.call.kind is OpKind.ALL_TO_ALL:
            itemsize = ITEMSIZE[op.call.dtype]
            values += [count * itemsize for row in op.splits() for count in row]
    return np.array(values, np.int64)


def _pointers(lengths: Sequence[int]) -> Int64:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
