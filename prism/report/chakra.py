"""The graph as Chakra execution traces for ASTRA-sim: `trace.<rank>.et`, and the groups in `groups.json`.

Only computing keeps its time; what communication costs is for the simulator to find. It runs four collectives and
messages between two ranks, so every other collective is told as the one of the four that takes the same steps and bytes
in a ring: a broadcast as an all_gather of its parts, a reduce or a scatter as a reduce_scatter, a gather as an
all_gather, a barrier as an all_reduce of next to nothing. An uneven all_to_all becomes messages. A trace has one size
for a collective: the largest input of any member. What moves nothing between ranks is left out.

Receives match their sends by a tag of their own, the op's row, so that none match by luck. The simulator runs one
collective or send at a time on a rank. So that this never ends in a deadlock, such as where ranks post on two groups in
different orders, a chain leads through all collectives and sends of a rank, in one order for all ranks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind, OpKind, Timeline
from prism.core.timeline.replay import Plan, make_plan
from prism.report.causal import rank_nodes
from prism.report.chakra_messages import Collective, NodeType, metadata, node
from prism.report.tracks import op_name

LEAST = 64
"""The least bytes of a collective for each of its members: it is cut into parts, and an empty part is never sent."""

_AS: dict[OpKind, tuple[Collective, Callable[[int, int], int]]] = {
    OpKind.ALL_REDUCE: (Collective.ALL_REDUCE, lambda n, s: s),
    OpKind.REDUCE_SCATTER: (Collective.REDUCE_SCATTER, lambda n, s: s),
    OpKind.ALL_GATHER: (Collective.ALL_GATHER, lambda n, s: s),
    OpKind.ALL_TO_ALL: (Collective.ALL_TO_ALL, lambda n, s: s),
    OpKind.BROADCAST: (Collective.ALL_GATHER, lambda n, s: -(-s // n)),
    OpKind.REDUCE: (Collective.REDUCE_SCATTER, lambda n, s: s),
    OpKind.GATHER: (Collective.ALL_GATHER, lambda n, s: s),
    OpKind.SCATTER: (Collective.REDUCE_SCATTER, lambda n, s: s),
    OpKind.BARRIER: (Collective.ALL_REDUCE, lambda n, s: 0),
}
"""What each collective is told as, and its comm_size (one member's input) from the members n and the op's nbytes s."""


Attributes = dict[str, int | str]
Part = tuple[NodeType, Attributes]


def write_chakra(folder: Path, graph: Graph, timeline: Timeline) -> None:
    """Write the traces into the folder, which is made; equal inputs give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = {_group_name(row): group.ranks for row, group in enumerate(graph.groups) if len(group.ranks) > 1}
    (folder / "groups.json").write_text(json.dumps(groups) + "\n", encoding="utf-8")
    plan = make_plan(graph)
    job = _Job(graph, _turns(timeline, plan), graph.node_lane().tolist(), graph.node_rank())
    for rank, nodes in rank_nodes(graph, timeline, plan):
        trace = _RankTrace(job, rank)
        for row in nodes.tolist():
            trace.tell(row)
        (folder / f"trace.{rank}.et").write_bytes(metadata() + b"".join(trace.records()))


def _group_name(row: int) -> str:
    """The simulator wants a number, and takes 0 for everyone."""
    return str(1 + row)


def _turns(timeline: Timeline, plan: Plan) -> list[int]:
    """For each op its place in an order that all ranks share, and in which no op comes before what it depends on."""
    turn = np.empty(len(plan.op_point), np.int64)
    turn[np.lexsort((plan.op_point, timeline.op_start))] = np.arange(len(turn))
    places: list[int] = turn.tolist()
    return places


@dataclass(frozen=True, slots=True)
class _Job:
    """What the traces of all ranks are made of."""

    graph: Graph
    turn: list[int]
    lane: list[int]  # nodes
    rank: Int64  # nodes

    def parts(self, op: int, rank: int) -> list[Part]:
        """What the rank does in an op: its messages, or its share of a collective."""
        graph, members = self.graph, self.graph.groups[self.graph.ops["group"][op]].ranks
        if graph.ops["kind"][op] == OpKind.SEND_RECV:
            sender, receiver = self.rank[graph.posts[graph.post_ptr[op] : graph.post_ptr[op + 1]]].tolist()
            return _messages(rank, op, [(sender, receiver, max(1, int(graph.ops["nbytes"][op])))])
        splits = graph.splits[graph.split_ptr[op] : graph.split_ptr[op + 1]].tolist()
        if graph.ops["kind"][op] == OpKind.ALL_TO_ALL and min(splits) < max(splits):
            ends = ((source, target) for source in members for target in members)
            return _messages(rank, op, [(*end, size) for end, size in zip(ends, splits, strict=True) if size])
        return [(NodeType.COLL, self._collective(op, len(members)))] if len(members) > 1 else []

    def _collective(self, op: int, n: int) -> Attributes:
        row = self.graph.ops[op]
        kind, size = _AS[OpKind(row["kind"])]
        nbytes = max(size(n, int(row["nbytes"])), LEAST * n)
        return {"comm_type": kind, "comm_size": nbytes, "pg_name": _group_name(int(row["group"]))}


def _messages(rank: int, op: int, moved: list[tuple[int, int, int]]) -> list[Part]:
    """The rank's part of what moves from rank to rank: sends first, and nothing to itself."""
    parts: list[Part] = []
    for source, target, size in moved:
        if source == rank != target:
            parts.append((NodeType.SEND, {"comm_dst": target, "comm_tag": op, "comm_size": size}))
    for source, target, size in moved:
        if target == rank != source:
            parts.append((NodeType.RECV, {"comm_src": source, "comm_tag": op, "comm_size": size}))
    return parts


@dataclass(slots=True)
class _Node:
    name: str
    kind: NodeType
    needs: list[int]
    micros: int = 0
    attributes: Attributes = field(default_factory=dict)


class _RankTrace:
    """The nodes of one rank as they are told. A lane goes on after some ids: its last computing, what it waited for."""

    def __init__(self, job: _Job, rank: int) -> None:
        self._job, self._rank = job, rank
        # The simulator refuses a rank without nodes, so each begins with one that takes no time.
        self._nodes = [_Node("begin", NodeType.COMP, [])]
        self._after: dict[int, list[int]] = {}  # lane -> ids
        self._ends: dict[int, list[int]] = {}  # op -> ids
        self._recorded: dict[int, list[int]] = {}  # event -> ids
        self._serial: list[tuple[int, int]] = []  # (turn, id) of collectives and sends
        self._computed: dict[int, int] = {}  # lane -> ns

    def tell(self, row: int) -> None:
        """Add what a node of the graph comes to."""
        graph, lane = self._job.graph, self._job.lane[row]
        kind, ref, _, duration = graph.nodes[row].item()
        after = self._after.setdefault(lane, [0])
        match kind:
            case NodeKind.COMPUTE:
                self._compute(lane, after, duration)
            case NodeKind.POST:
                self._ends[ref] = self._post(ref, after)
            case NodeKind.WAIT:
                for op in graph.wait_ops[graph.wait_ptr[ref] : graph.wait_ptr[ref + 1]].tolist():
                    self._join(lane, self._ends[op])
            case NodeKind.RECORD:
                self._recorded[ref] = after
            case NodeKind.WAIT_EVENT:
                self._join(lane, self._recorded[ref])

    def records(self) -> Iterator[bytes]:
        """The nodes as bytes, with each collective and send after the one whose turn comes before."""
        for (_, before), (_, number) in pairwise(sorted(self._serial)):
            if before not in self._nodes[number].needs:
                self._nodes[number].needs = [*self._nodes[number].needs, before]
        for number, one in enumerate(self._nodes):
            yield node(number, one.name, one.kind, one.needs, one.micros, **one.attributes)

    def _compute(self, lane: int, after: list[int], duration: int) -> None:
        # In whole microseconds of the lane's sum, so that roundings do not add up.
        done = self._computed.get(lane, 0)
        self._computed[lane] = done + duration
        micros = (done + duration) // 1000 - done // 1000
        if micros:
            self._after[lane] = [self._add(_Node("compute", NodeType.COMP, after, micros))]

    def _post(self, op: int, after: list[int]) -> list[int]:
        """The ids with which the op ends for this rank; what was before it, if nothing moves."""
        name = op_name(self._job.graph, op)
        parts = [self._add(_Node(name, kind, after, 0, told)) for kind, told in self._job.parts(op, self._rank)]
        self._serial += [(self._job.turn[op], part) for part in parts if self._nodes[part].kind != NodeType.RECV]
        return parts or after

    def _join(self, lane: int, ids: list[int]) -> None:
        """Let the lane go on after these ids too; what they need themselves need not be named again."""
        needed = {before for number in ids for before in self._nodes[number].needs}
        self._after[lane] = [number for number in self._after[lane] if number not in needed and number not in ids] + ids

    def _add(self, added: _Node) -> int:
        self._nodes.append(added)
        return len(self._nodes) - 1
