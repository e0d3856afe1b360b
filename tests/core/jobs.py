"""Synthetic jobs: a builder for graphs, and the parallel programs that tests and benchmarks replay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from prism.core.graph import DTYPES, LANE, NODE, OP, REDUCES, Graph, Group, NodeKind, OpKind, Stream
from prism.core.levels import pointers

MS = 1_000_000  # ns
MIB = 1 << 20
REDUCING = (OpKind.ALL_REDUCE, OpKind.REDUCE_SCATTER, OpKind.REDUCE)

Channel = tuple[int, int, int, int]  # group, sender, receiver, tag; -1 for the collectives of the group
Lane = tuple[int, int, int]  # rank, stream, index
Handle = tuple[Channel, int]  # an op: its channel, and its number there


@dataclass
class _Op:
    kind: OpKind
    nbytes: int
    root: int
    splits: list[int]
    posts: dict[int, tuple[Lane, int]] = field(default_factory=dict)  # group rank -> lane, position in it


class Job:
    """Builds a graph rank by rank: the n-th post of a rank on a channel joins the n-th op of that channel.

    `lane` chooses the lane that the following calls for its rank go to; it is the host thread until then.
    """

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.groups = [Group("world", tuple(range(world_size)))]
        self.lanes: dict[Lane, list[tuple[int, int, int]]] = {(r, 0, 0): [] for r in range(world_size)}
        self.current: dict[int, Lane] = {r: (r, 0, 0) for r in range(world_size)}
        self.ops: dict[Handle, _Op] = {}
        self.posted: dict[tuple[int, Channel], int] = defaultdict(int)
        self.waits: list[tuple[Handle, ...]] = []
        self.events = 0

    def group(self, ranks: Sequence[int], name: str | None = None) -> int:
        self.groups.append(Group(name or f"group{len(self.groups)}", tuple(ranks)))
        return len(self.groups) - 1

    def lane(self, rank: int, stream: Stream, index: int = 0) -> None:
        self.current[rank] = (rank, int(stream), index)
        self.lanes.setdefault(self.current[rank], [])

    def compute(self, rank: int, ns: int) -> None:
        self._node(rank, NodeKind.COMPUTE, -1, ns)

    def post(
        self, rank: int, kind: OpKind, nbytes: int = 0, group: int = 0, root: int = -1, splits: Sequence[int] = ()
    ) -> Handle:
        member = self.groups[group].ranks.index(rank)
        return self._post(rank, (group, -1, -1, -1), member, _Op(kind, nbytes, root, list(splits)))

    def send(self, rank: int, to: int, nbytes: int, group: int = 0, tag: int = 0) -> Handle:
        return self._message(rank, rank, to, nbytes, group, tag)

    def recv(self, rank: int, source: int, nbytes: int, group: int = 0, tag: int = 0) -> Handle:
        return self._message(rank, source, rank, nbytes, group, tag)

    def wait(self, rank: int, *ops: Handle) -> None:
        self._node(rank, NodeKind.WAIT, len(self.waits))
        self.waits.append(ops)

    def mark(self, rank: int) -> None:
        done = sum(kind == NodeKind.MARK for kind, _, _ in self.lanes[self.current[rank]])
        self._node(rank, NodeKind.MARK, done)

    def record(self, rank: int) -> int:
        self._node(rank, NodeKind.RECORD, self.events)
        self.events += 1
        return self.events - 1

    def wait_event(self, rank: int, event: int) -> None:
        self._node(rank, NodeKind.WAIT_EVENT, event)

    def _message(self, rank: int, sender: int, receiver: int, nbytes: int, group: int, tag: int) -> Handle:
        members = self.groups[group].ranks
        channel = (group, members.index(sender), members.index(receiver), tag)
        return self._post(rank, channel, int(rank == receiver), _Op(OpKind.SEND_RECV, nbytes, -1, []))

    def _post(self, rank: int, channel: Channel, member: int, op: _Op) -> Handle:
        handle = (channel, self.posted[rank, channel])
        self.posted[rank, channel] += 1
        lane = self.current[rank]
        self.ops.setdefault(handle, op).posts[member] = (lane, len(self.lanes[lane]))
        self._node(rank, NodeKind.POST, -1)
        return handle

    def _node(self, rank: int, kind: NodeKind, ref: int, ns: int = 0) -> None:
        self.lanes[self.current[rank]].append((kind, ref, ns))

    def graph(self) -> Graph:
        lanes = sorted(self.lanes)
        lane_ptr = pointers(np.array([len(self.lanes[lane]) for lane in lanes], np.int64))
        first = dict(zip(lanes, lane_ptr.tolist(), strict=False))
        number = {handle: row for row, handle in enumerate(sorted(self.ops))}
        ops = [(handle, self.ops[handle]) for handle in number]
        posts = [[first[lane] + at for _, (lane, at) in sorted(op.posts.items())] for _, op in ops]
        nodes = np.array([(k, ref, -1, ns) for lane in lanes for k, ref, ns in self.lanes[lane]], NODE)
        for row, members in enumerate(posts):
            nodes["ref"][members] = row
        post_ptr, post_values = _csr(posts)
        wait_ptr, wait_values = _csr([[number[handle] for handle in wait] for wait in self.waits])
        split_ptr, split_values = _csr([op.splits for _, op in ops])
        return Graph(
            world_size=self.world_size,
            groups=tuple(self.groups),
            lanes=np.array(lanes, LANE),
            lane_ptr=lane_ptr,
            nodes=nodes,
            ops=np.array([_op_row(handle, op, number) for handle, op in ops], OP),
            post_ptr=post_ptr,
            posts=post_values,
            wait_ptr=wait_ptr,
            wait_ops=wait_values,
            split_ptr=split_ptr,
            splits=split_values,
            clock="ns",
        )


def _csr(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([value for row in rows for value in row], np.int64)
    return pointers(np.array([len(row) for row in rows], np.int64)), values


def _op_row(handle: Handle, op: _Op, number: dict[Handle, int]) -> tuple[int, ...]:
    channel, seq = handle
    reduce = REDUCES.index("sum" if op.kind in REDUCING else "none")
    dtype = DTYPES.index("float32" if op.nbytes else "none")
    prev = number.get((channel, seq - 1), -1)
    return (op.kind, reduce, dtype, channel[0], seq, op.root, channel[3], op.nbytes, prev)


def data_parallel(world_size: int, iterations: int = 4, buckets: int = 3, ns: int = MS) -> Graph:
    """Forward, then a backward whose gradient buckets are reduced while the next one is computed."""
    job = Job(world_size)
    for rank in range(world_size):
        for _ in range(iterations):
            job.compute(rank, ns)
            handles = []
            for _ in range(buckets):
                job.compute(rank, 2 * ns // buckets)
                handles.append(job.post(rank, OpKind.ALL_REDUCE, 25 * MIB))
            for handle in handles:
                job.wait(rank, handle)
            job.compute(rank, ns // 10)
            job.mark(rank)
    return job.graph()


def pipeline(stages: int, micro_batches: int, iterations: int = 3, ns: int = MS, nbytes: int = MIB) -> Graph:
    """GPipe: all micro-batches forward, then all backward; one stage a rank."""
    job = Job(stages)
    for rank in range(stages):
        for _ in range(iterations):
            for _ in range(micro_batches):
                _stage(job, rank, rank - 1, rank + 1, ns, nbytes)
            for _ in range(micro_batches):
                _stage(job, rank, rank + 1, rank - 1, 2 * ns, nbytes)
            job.mark(rank)
    return job.graph()


def _stage(job: Job, rank: int, source: int, target: int, ns: int, nbytes: int) -> None:
    if 0 <= source < job.world_size:
        job.wait(rank, job.recv(rank, source, nbytes))
    job.compute(rank, ns)
    if 0 <= target < job.world_size:
        job.send(rank, target, nbytes)


def expert_parallel(world_size: int, iterations: int = 3, layers: int = 2, ns: int = MS) -> Graph:
    """A mixture of experts: tokens go to their experts and back by all_to_all, the first expert gets twice as many."""
    dispatch = [MIB * (2 if expert == 0 else 1) for _ in range(world_size) for expert in range(world_size)]
    combine = np.array(dispatch).reshape(world_size, world_size).T.ravel().tolist()
    job = Job(world_size)
    for rank in range(world_size):
        for _ in range(iterations):
            for _ in range(layers):
                job.compute(rank, ns)
                for splits in (dispatch, combine):
                    nbytes = max(sum(splits[r * world_size : (r + 1) * world_size]) for r in range(world_size))
                    job.wait(rank, job.post(rank, OpKind.ALL_TO_ALL, nbytes, splits=splits))
                    job.compute(rank, 2 * ns if rank == 0 else ns)
            job.mark(rank)
    return job.graph()


def two_dimensional(replicas: int, shards: int, iterations: int = 3, layers: int = 2, ns: int = MS) -> Graph:
    """Data parallel over tensor parallel: every layer all-reduces in its shard group, gradients across replicas."""
    job = Job(replicas * shards)
    tensor = [job.group(range(r * shards, (r + 1) * shards), f"tp{r}") for r in range(replicas)]
    data = [job.group(range(s, replicas * shards, shards), f"dp{s}") for s in range(shards)]
    for rank in range(replicas * shards):
        for _ in range(iterations):
            for _ in range(layers):
                job.compute(rank, ns)
                job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, MIB, tensor[rank // shards]))
            gradients = [job.post(rank, OpKind.REDUCE_SCATTER, 8 * MIB, data[rank % shards]) for _ in range(layers)]
            job.compute(rank, 2 * ns)
            job.wait(rank, *gradients)
            job.wait(rank, job.post(rank, OpKind.ALL_GATHER, 8 * MIB // replicas, data[rank % shards]))
            job.mark(rank)
    return job.graph()


def overlapped(world_size: int, ops: int, ns: int = 100) -> Graph:
    """All_reduces of one byte behind longer and longer computations: from each post to its wait more than `ns`."""
    job = Job(world_size)
    for rank in range(world_size):
        for k in range(ops):
            job.compute(rank, ns)
            op = job.post(rank, OpKind.ALL_REDUCE, 1)
            job.compute(rank, ns + 1 + k)
            job.wait(rank, op)
    return job.graph()
