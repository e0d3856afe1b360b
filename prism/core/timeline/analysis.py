"""What a timeline says: iteration times, where each rank's time goes, and the critical path.

All of it is about the *window*: from the end of the warm-up to the end of the last iteration. A job without an
iteration after the warm-up is analysed whole. The window is the predicted span of every rank: one that ends its part
early waits until the window ends, as it would for the next iteration. A rank is seen through its main lane: its first
compute stream, or its only lane on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind, OpKind, Stream, Timeline


class Window(NamedTuple):
    """The part of the job that is analysed, in ns from its start."""

    start: int
    end: int


class Step(NamedTuple):
    """One piece of the critical path: what holds it (compute, or an op's kind), on which rank, how long."""

    rank: int
    kind: str
    ns: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """Times in ns; arrays are int64[world], zero for a rank without lanes."""

    window: Window
    iteration_ns: list[int]  # after the warm-up
    iterations: Int64  # iterations that each rank ended, warm-up included
    compute_ns: Int64
    comm_ns: Int64  # blocked while the op that ends the wait was running
    wait_ns: Int64  # idle for any other reason; the three add up to the window
    bubble_fraction: float  # sum of wait_ns / (ranks x window)
    critical_path: list[Step]  # earliest first; adds up to the window


def analyse(graph: Graph, timeline: Timeline, warmup: int) -> Analysis:
    """Analyse one timeline of a graph, leaving out the first `warmup` iterations."""
    ends = iteration_ends(graph, timeline)
    window = _window(timeline, ends, warmup)
    span = window.end - window.start
    present = np.unique(graph.lanes["rank"])
    compute, comm = _busy_times(graph, timeline, window)
    wait = np.zeros_like(compute)
    wait[present] = span - compute[present] - comm[present]
    marks = graph.node_rank()[graph.nodes["kind"] == NodeKind.MARK]
    return Analysis(
        window=window,
        iteration_ns=np.diff(ends, prepend=0)[warmup:].tolist(),
        iterations=np.bincount(marks, minlength=graph.world_size),
        compute_ns=compute,
        comm_ns=comm,
        wait_ns=wait,
        bubble_fraction=int(wait.sum()) / max(1, len(present) * span),
        critical_path=critical_path(graph, timeline, window),
    )


def iteration_ends(graph: Graph, timeline: Timeline) -> Int64:
    """When each iteration ends on the last rank that has it, int64[iterations] ns.

    A rank with fewer iterations drops out of the later ones; an iteration never ends before the one it follows.
    """
    marks = np.flatnonzero(graph.nodes["kind"] == NodeKind.MARK)
    iteration = graph.nodes["ref"][marks]
    ends = np.zeros(iteration.max(initial=-1) + 1, np.int64)
    np.maximum.at(ends, iteration, timeline.node_end[marks])
    return np.maximum.accumulate(ends)


def critical_path(graph: Graph, timeline: Timeline, window: Window) -> list[Step]:
    """The chain of causes that ends with the window, walked back to its start; equal neighbours are merged."""
    steps: list[Step] = []
    at = window.end
    for rank, kind, since in _causes(graph, timeline, window.end):
        held = at - max(since, window.start)
        if held > 0 and steps and steps[-1][:2] == (rank, kind):
            steps[-1] = Step(rank, kind, steps[-1].ns + held)
        elif held > 0:
            steps.append(Step(rank, kind, held))
        at = since
        if at <= window.start:
            break
    return steps[::-1]


def _window(timeline: Timeline, ends: Int64, warmup: int) -> Window:
    if len(ends) <= warmup:
        return Window(0, int(timeline.node_end.max(initial=0)))
    return Window(int(ends[warmup - 1]) if warmup else 0, int(ends[-1]))


def _busy_times(graph: Graph, timeline: Timeline, window: Window) -> tuple[Int64, Int64]:
    """Each rank's compute and comm inside the window, int64[world]."""
    nodes = np.flatnonzero(main_lanes(graph)[graph.node_lane()])
    kind, rank = graph.nodes["kind"][nodes], graph.node_rank()[nodes]
    since = timeline.node_start[nodes]
    waits = np.flatnonzero((kind == NodeKind.WAIT) & (timeline.node_end[nodes] > since))
    op = last_ops(graph, timeline)[graph.nodes["ref"][nodes[waits]]]
    since[waits] = np.maximum(since[waits], timeline.op_start[op])
    held = np.clip(timeline.node_end[nodes], *window) - np.clip(since, *window)
    compute, comm = np.zeros((2, graph.world_size), np.int64)
    segments = np.flatnonzero(kind == NodeKind.COMPUTE)
    np.add.at(compute, rank[segments], held[segments])
    np.add.at(comm, rank[waits], held[waits])
    return compute, comm


def main_lanes(graph: Graph) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which lanes show their rank's progress, bool[lanes]: the first compute stream, or else the first lane."""
    lanes = graph.lanes
    # By rank, compute streams first; lanes are sorted by stream and index already.
    order = np.lexsort((lanes["stream"] != Stream.COMPUTE, lanes["rank"]))
    _, first = np.unique(lanes["rank"][order], return_index=True)
    main = np.zeros(len(lanes), np.bool_)
    main[order[first]] = True
    return main


def last_ops(graph: Graph, timeline: Timeline) -> Int64:
    """The op that each wait ends with: of its ops the one that ends last (the first such), -1 if it has none."""
    ends = timeline.op_end[graph.wait_ops]
    rows = np.repeat(np.arange(len(graph.wait_ptr) - 1), np.diff(graph.wait_ptr))
    order = np.lexsort((-np.arange(len(rows)), ends, rows))
    last = np.full(len(graph.wait_ptr) - 1, -1)
    filled = np.flatnonzero(np.diff(graph.wait_ptr))
    last[filled] = graph.wait_ops[order[graph.wait_ptr[filled + 1] - 1]]
    return last


def _causes(graph: Graph, timeline: Timeline, end: int) -> Iterator[tuple[int, str, int]]:
    """What held the job up, backwards from `end`: rank, kind, and since when."""
    ranks, last = graph.node_rank(), last_ops(graph, timeline)
    lane_first = set(graph.lane_ptr[:-1].tolist())
    records = np.flatnonzero(graph.nodes["kind"] == NodeKind.RECORD)
    record_of = dict(zip(graph.nodes["ref"][records].tolist(), records.tolist(), strict=True))
    node = _ends_at(graph, timeline, end)
    while node is not None:
        kind, ref, rank = graph.nodes["kind"][node], int(graph.nodes["ref"][node]), int(ranks[node])
        start = int(timeline.node_start[node])
        blocked = start < timeline.node_end[node]
        if blocked and kind == NodeKind.WAIT:
            op: int | None = int(last[ref])
            node = None
            while op is not None:
                yield rank, OpKind(graph.ops["kind"][op]).name.lower(), int(timeline.op_start[op])
                op, node = _op_cause(graph, timeline, op)
        elif blocked and kind == NodeKind.WAIT_EVENT:
            node = record_of[ref]
        else:
            yield rank, "compute", start
            node = None if node in lane_first else node - 1


def _ends_at(graph: Graph, timeline: Timeline, end: int) -> int | None:
    """The node to start from: the first that ends then, a MARK if there is one."""
    nodes = np.flatnonzero(timeline.node_end == end)
    marks = nodes[graph.nodes["kind"][nodes] == NodeKind.MARK]
    found = marks if marks.size else nodes
    return int(found[0]) if found.size else None


def _op_cause(graph: Graph, timeline: Timeline, op: int) -> tuple[int | None, int | None]:
    """Why an op starts when it does: the op before it in its channel, or else the post that came last."""
    start = timeline.op_start[op]
    prev = int(graph.ops["prev"][op])
    if prev >= 0 and timeline.op_end[prev] == start:
        return prev, None
    posts = graph.posts[graph.post_ptr[op] : graph.post_ptr[op + 1]]
    latest = posts[timeline.node_end[posts] == start]
    return None, int(latest[0]) if latest.size else None
