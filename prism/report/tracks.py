"""What each lane is doing when: a graph and its timeline as stretches of compute, communication and waiting."""

from __future__ import annotations

import enum
from itertools import pairwise

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind, OpKind, Stream, Table, Timeline
from prism.core.timeline.analysis import last_ops


class State(enum.IntEnum):
    """What a lane does during a segment."""

    COMPUTE = 0
    COMM = 1  # blocked while its op is running
    WAIT = 2  # blocked before its op has started, or by an event of another lane


SEGMENT = np.dtype([("lane", "<i4"), ("state", "u1"), ("node", "<i8"), ("op", "<i4"), ("start", "<i8"), ("end", "<i8")])
"""lane, state (State), node, op (-1 outside an op), start and end in ns."""


def segments(graph: Graph, timeline: Timeline) -> Table:
    """All segments, SEGMENT, in program order lane by lane.

    A blocked WAIT node belongs to the op that it ends with: it is WAIT until that op starts, COMM from there on. Empty
    segments are left out, except a COMM right after its WAIT: an op that costs nothing still ends that wait.
    """
    kinds = graph.nodes["kind"]
    held = timeline.node_end > timeline.node_start
    compute = np.flatnonzero(held & (kinds == NodeKind.COMPUTE))
    event = np.flatnonzero(held & (kinds == NodeKind.WAIT_EVENT))
    wait = np.flatnonzero(held & (kinds == NodeKind.WAIT))
    op = last_ops(graph, timeline)[graph.nodes["ref"][wait]]
    start, end = timeline.node_start, timeline.node_end
    turn = np.clip(timeline.op_start[op], start[wait], end[wait])
    waited, ran = turn > start[wait], (end[wait] > turn) | (turn > start[wait])
    parts = [
        _table(graph, State.COMPUTE, compute, -1, start[compute], end[compute]),
        _table(graph, State.WAIT, event, -1, start[event], end[event]),
        _table(graph, State.WAIT, wait, op, start[wait], turn)[waited],
        _table(graph, State.COMM, wait, op, turn, end[wait])[ran],
    ]
    table = np.concatenate(parts)
    return table[np.argsort(table["node"], kind="stable")]


def _table(graph: Graph, state: State, node: Int64, op: Int64 | int, start: Int64, end: Int64) -> Table:
    table = np.empty(len(node), SEGMENT)
    table["lane"] = np.searchsorted(graph.lane_ptr, node, side="right") - 1
    table["state"], table["node"], table["op"] = state, node, op
    table["start"], table["end"] = start, end
    return table


def alike(graph: Graph, table: Table) -> list[list[int]]:
    """Ranks whose segments are the same at the same times, each set ascending, in order of their lowest rank.

    `table` has segments lane by lane, as `segments` gives them.
    """
    lane, rank = np.ascontiguousarray(table["lane"]), graph.lanes["rank"]
    cuts = [0, *(np.flatnonzero(np.diff(rank[lane])) + 1).tolist(), len(lane)] if len(lane) else []
    sets: dict[bytes, list[int]] = {}
    for low, high in pairwise(cuts):
        part = table[low:high]
        key = b"".join(np.ascontiguousarray(part[name]).tobytes() for name in ("state", "start", "end"))
        sets.setdefault(key, []).append(int(rank[lane[low]]))
    return list(sets.values())


def alike_name(ranks: list[int]) -> str:
    """What to call ranks that do alike."""
    return f"rank {ranks[0]}" + (f" and {len(ranks) - 1:,} alike" if len(ranks) > 1 else "")


def main_lanes(graph: Graph) -> Int64:
    """The lane that shows each rank's progress, its first compute stream or else its first; -1: none. int64[world]."""
    order = np.lexsort((graph.lanes["stream"] != Stream.COMPUTE, graph.lanes["rank"]))
    ranks, first = np.unique(graph.lanes["rank"][order], return_index=True)
    lanes = np.full(graph.world_size, -1)
    lanes[ranks] = order[first]
    return lanes


def op_name(graph: Graph, op: int) -> str:
    """The kind of an op as programs write it, such as `all_reduce`."""
    return OpKind(int(graph.ops["kind"][op])).name.lower()
