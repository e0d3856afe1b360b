"""The dependency graph of a training job: lanes of nodes, and the ops that tie the lanes together.

A *lane* is one ordered sequence of nodes: the single lane of a rank on a CPU; the host thread, a compute stream or a
group's communication stream on a device. A *node* is a compute segment, the posting of an op, a wait for ops, the end
of an iteration, or (between lanes of one rank) the recording of an event and the wait for it. An *op* is one
collective or one point-to-point message; it joins the posts of all its members. Nothing finer lives here: kernels
belong to a profiler.

Everything is columnar. Nodes lie lane by lane, in program order, so that the lane of a node is its position; what a
node or an op refers to is held in CSR form (a pointer array and a value array).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Table = npt.NDArray[np.void]


class NodeKind(enum.IntEnum):
    """What a node does; `ref` of the node means what the comment says."""

    COMPUTE = 0  # ref: -1; the only kind with a duration
    POST = 1  # ref: the op
    WAIT = 2  # ref: the wait's row in `wait_ptr`
    MARK = 3  # ref: the iteration that ends here, counted from 0
    RECORD = 4  # ref: the event
    WAIT_EVENT = 5  # ref: the event


class OpKind(enum.IntEnum):
    """One collective, or one point-to-point message."""

    ALL_REDUCE = 0
    REDUCE_SCATTER = 1
    ALL_GATHER = 2
    BROADCAST = 3
    REDUCE = 4
    GATHER = 5
    SCATTER = 6
    ALL_TO_ALL = 7
    BARRIER = 8
    SEND_RECV = 9


class Stream(enum.IntEnum):
    """What a lane models."""

    HOST = 0
    COMPUTE = 1
    COMM = 2


NODE = np.dtype([("kind", "u1"), ("ref", "<i4"), ("site", "<i4"), ("duration", "<i8")])
"""kind, ref (see NodeKind), site (row in `sites`, -1 for none), duration in ns (COMPUTE only, else 0)."""

OP = np.dtype(
    [("kind", "u1"), ("reduce", "u1"), ("dtype", "u1"), ("group", "<i4"), ("seq", "<i4"), ("root", "<i4"),
     ("tag", "<i4"), ("nbytes", "<i8"), ("prev", "<i4")]
)  # fmt: skip
"""kind (OpKind), reduce (row in REDUCES), dtype (row in DTYPES), group (row in `groups`), seq (number of the op in its
channel, from 0), root (group rank, -1), tag (-1), nbytes (the largest input of any member, in bytes), prev (the op that
comes before it in its channel, -1). A channel is what runs serially: the collectives of one group, or the messages
from one group rank to another with one tag."""

LANE = np.dtype([("rank", "<i4"), ("stream", "u1"), ("index", "<i4")])
"""rank (global), stream (Stream), index (which of the rank's streams of that kind)."""

REDUCES = ("none", "sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum")
DTYPES = (
    "none", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool",
    "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64", "float8_e4m3fnuz",
    "float8_e5m2fnuz",
)  # fmt: skip

ITEMSIZE = dict(zip(DTYPES, (0, 1, 1, 2, 4, 8, 2, 2, 4, 8, 1, 8, 16, 1, 1, 2, 4, 8, 1, 1), strict=True))
"""Bytes of one element."""


class InvalidGraph(ValueError):
    """The graph cannot be evaluated; the text names the lane, node or op."""


@dataclass(frozen=True, slots=True)
class Group:
    """One process group: its members are global ranks, listed by group rank."""

    name: str
    ranks: tuple[int, ...]
    backend: str = "gloo"


@dataclass(frozen=True)
class Graph:
    """A whole job. `posts` of an op are ordered by group rank (SEND_RECV: the sender, then the receiver)."""

    world_size: int
    groups: tuple[Group, ...]
    lanes: Table  # LANE, sorted by (rank, stream, index)
    lane_ptr: Int64  # lanes + 1: nodes of lane i are lane_ptr[i]:lane_ptr[i + 1]
    nodes: Table  # NODE
    ops: Table  # OP, sorted by (group, channel, seq)
    post_ptr: Int64  # ops + 1
    posts: Int64  # indices of POST nodes
    wait_ptr: Int64  # waits + 1
    wait_ops: Int64  # indices of ops, in the order in which the program waited
    split_ptr: Int64  # ops + 1; only ALL_TO_ALL has a row: members x members bytes sent from i to j, row-major
    splits: Int64
    sites: tuple[str, ...] = field(default=())  # `path:line` of the user's call
    clock: str = "none"  # none (order only) or ns (durations are calibrated)

    def node_lane(self) -> Int64:
        """The lane of every node, int64[nodes]."""
        return np.repeat(np.arange(len(self.lanes), dtype=np.int64), np.diff(self.lane_ptr))

    def node_rank(self) -> Int64:
        """The global rank of every node, int64[nodes]."""
        return self.lanes["rank"].astype(np.int64)[self.node_lane()]

    def with_durations(self, duration: Int64, clock: str = "ns") -> Graph:
        """The same graph with other durations (int64[nodes], ns); all other columns are shared."""
        nodes = self.nodes.copy()
        nodes["duration"] = duration
        return replace(self, nodes=nodes, clock=clock)


@dataclass(frozen=True)
class Timeline:
    """When everything happens, in ns from the start of the job; the result of evaluating a graph."""

    node_start: Int64
    node_end: Int64
    op_start: Int64
    op_end: Int64
