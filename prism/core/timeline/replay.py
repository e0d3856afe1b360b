"""Replay: when every node and op of a graph happens, given durations and costs.

Theory of operation. A lane is serial, so between two of its waits time only adds up. Let P be the running sum of all
durations in node order. Then every node that follows wait w in its lane, up to the next one, ends at P[node] + d(w),
where d(w) is how far the lane is behind pure computing once w is over. What has to be found is therefore one number
for each *point*: d for the start of a lane, for a WAIT and for a WAIT_EVENT, and the start time for an op. Each is a
maximum over its predecessors,

    value(point) = max over its edges of value(source) + P[gain] - P[loss] + cost[op],

which is a longest path. The edges depend on the structure only: `make_plan` finds them once, sorts them by topological
level, and `evaluate` runs through the levels, one gather and one segmented maximum each, over all ranks at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, InvalidGraph, NodeKind, OpKind, Timeline
from prism.core.levels import Cycle, pointers, ranges, topological_levels

ORIGIN = 0  # the point at which the job starts: value 0, no predecessors


@dataclass(frozen=True, slots=True)
class Plan:
    """What replay needs to know of a graph's structure; points are numbered level by level."""

    lane_first: Int64  # the first node of every lane that has one
    home: Int64  # nodes: the point that the node's time counts from
    op_point: Int64  # ops
    source: Int64  # edges, sorted by target: the point they come from
    gain: Int64  # edges: the node up to which computing is added
    loss: Int64  # edges: the node up to which computing is taken off
    cost: Int64  # edges: 1 + the op whose cost is added, 0 for none
    edge_ptr: Int64  # points + 1: the edges into point p are edge_ptr[p]:edge_ptr[p + 1]
    bounds: Int64  # levels + 1: the points of level k are bounds[k]:bounds[k + 1]


def make_plan(graph: Graph) -> Plan:
    """Order the graph for evaluation; raises InvalidGraph naming a cycle, or an event that is not recorded once."""
    sync = np.isin(graph.nodes["kind"], (NodeKind.WAIT, NodeKind.WAIT_EVENT))
    # Points in node order, each lane's start before its nodes; then the ops.
    home = 1 + graph.node_lane() + np.cumsum(sync)
    first_op = 1 + len(graph.lanes) + int(sync.sum())
    op_point = first_op + np.arange(len(graph.ops))
    count = first_op + len(graph.ops)
    source, target, gain, loss, cost = _edges(graph, home, op_point, np.flatnonzero(sync))
    try:
        levels = topological_levels(count, source, target)
    except Cycle as cycle:
        raise InvalidGraph(_describe(graph, cycle.points, home, np.flatnonzero(sync), first_op)) from None
    number = np.empty(count, np.int64)
    number[levels.order] = np.arange(count)
    by_target = np.argsort(number[target], kind="stable")
    return Plan(
        lane_first=graph.lane_ptr[:-1][np.diff(graph.lane_ptr) > 0],
        home=number[home],
        op_point=number[op_point],
        source=number[source[by_target]],
        gain=gain[by_target],
        loss=loss[by_target],
        cost=cost[by_target],
        edge_ptr=pointers(np.bincount(number[target], minlength=count)),
        bounds=levels.bounds,
    )


def evaluate(plan: Plan, durations: Int64, costs: Int64) -> Timeline:
    """The timeline of a planned graph.

    durations: int64[..., nodes] ns, zero on every node but COMPUTE; costs: int64[..., ops] ns. Leading axes are
    variants: they broadcast, and every column of the timeline has them. Raises ValueError on other lengths.
    """
    _check_length("durations", durations, plan.home.size, "nodes")
    _check_length("costs", costs, plan.op_point.size, "ops")
    done = _prefixed(np.cumsum(durations, axis=-1, dtype=np.int64))
    reach = done[..., plan.gain] - done[..., plan.loss] + _prefixed(costs)[..., plan.cost]
    value = np.zeros((*reach.shape[:-1], plan.edge_ptr.size - 1), np.int64)
    edge_bounds = plan.edge_ptr[plan.bounds]
    for level in range(1, plan.bounds.size - 1):
        edges = slice(edge_bounds[level], edge_bounds[level + 1])
        points = slice(plan.bounds[level], plan.bounds[level + 1])
        reach[..., edges] += value[..., plan.source[edges]]
        starts = plan.edge_ptr[points] - edges.start
        np.maximum.reduceat(reach[..., edges], starts, axis=-1, out=value[..., points])
    node_end = value[..., plan.home] + done[..., 1:]
    node_start = _prefixed(node_end[..., :-1])[..., : plan.home.size]
    node_start[..., plan.lane_first] = 0
    op_start = value[..., plan.op_point]
    return Timeline(node_start, node_end, op_start, op_start + costs)


def slow(graph: Graph, ranks: Sequence[int], factor: float) -> Int64:
    """The graph's durations with those of some ranks multiplied, int64[nodes] ns, rounded to the nearest.

    Raises ValueError on a rank outside the world and on a factor that is negative or not finite.
    """
    outside = [rank for rank in ranks if not 0 <= rank < graph.world_size]
    if outside:
        raise ValueError(f"rank {outside[0]} is outside the world; valid ranks are 0 to {graph.world_size - 1}")
    if not 0 <= factor < float("inf"):
        raise ValueError(f"slow factor {factor} must be finite and not negative, such as 1.3")
    duration = graph.nodes["duration"].copy()
    chosen = np.isin(graph.node_rank(), ranks)
    duration[chosen] = np.rint(duration[chosen] * factor)
    return duration


def jitter(durations: Int64, sigma: float, seed: int, draw: int) -> Int64:
    """The durations of one draw, each times a lognormal factor with mean 1; sigma is that of its logarithm.

    The same seed and draw give the same durations, whichever other draws are made.
    """
    dice = np.random.Generator(np.random.PCG64([seed, draw]))
    factors = np.exp(dice.normal(-sigma * sigma / 2, sigma, durations.shape[-1]))
    drawn: Int64 = np.rint(durations * factors).astype(np.int64)
    return drawn


Edges = tuple[Int64, Int64, Int64, Int64, Int64]  # source, target, gain, loss, cost; see Plan


def _edges(graph: Graph, home: Int64, op_point: Int64, sync: Int64) -> Edges:
    kind, ref = graph.nodes["kind"], graph.nodes["ref"]
    waits = np.flatnonzero(kind == NodeKind.WAIT)
    first, last = graph.wait_ptr[ref[waits]], graph.wait_ptr[ref[waits] + 1]
    waiter, awaited = np.repeat(waits, last - first), graph.wait_ops[ranges(first, last)]
    held, record = _event_edges(graph)
    op_of_post = np.repeat(np.arange(len(graph.ops)), np.diff(graph.post_ptr))
    prev = graph.ops["prev"].astype(np.int64)
    later = np.flatnonzero(prev >= 0)
    free = np.flatnonzero((prev < 0) & (np.diff(graph.post_ptr) == 0))
    lane_start = 1 + np.arange(len(graph.lanes)) + np.searchsorted(sync, graph.lane_ptr[:-1])
    blocks: list[tuple[Int64 | int, ...]] = [
        (ORIGIN, lane_start, 0, graph.lane_ptr[:-1], 0),
        (home[sync] - 1, home[sync], 0, 0, 0),
        (op_point[awaited], home[waiter], 0, waiter, 1 + awaited),
        (home[record], home[held], record, held, 0),
        (home[graph.posts], op_point[op_of_post], graph.posts, 0, 0),
        (op_point[prev[later]], op_point[later], 0, 0, 1 + prev[later]),
        (ORIGIN, op_point[free], 0, 0, 0),
    ]
    columns = zip(*(np.broadcast_arrays(*block) for block in blocks), strict=True)
    source, target, gain, loss, cost = (np.concatenate(column) for column in columns)
    return source, target, gain, loss, cost


def _event_edges(graph: Graph) -> tuple[Int64, Int64]:
    """The WAIT_EVENT nodes and, for each, the node that records its event."""
    kind, ref = graph.nodes["kind"], graph.nodes["ref"]
    records, held = np.flatnonzero(kind == NodeKind.RECORD), np.flatnonzero(kind == NodeKind.WAIT_EVENT)
    events, first, times = np.unique(ref[records], return_index=True, return_counts=True)
    if (times > 1).any():
        raise InvalidGraph(f"event {events[times > 1][0]} is recorded {times.max()} times; record each event once")
    unknown = held[~np.isin(ref[held], events)]
    if unknown.size:
        raise InvalidGraph(f"node {unknown[0]} waits for event {ref[unknown[0]]}, which no node records")
    return held, records[first[np.searchsorted(events, ref[held])]]


def _describe(graph: Graph, cycle: list[int], home: Int64, sync: Int64, first_op: int) -> str:
    node_at = {int(home[node]): int(node) for node in sync}
    names = [_op_name(graph, p - first_op) if p >= first_op else _node_name(graph, node_at[p]) for p in cycle]
    shown = [*names[:6], "..."] if len(names) > 6 else names
    return f"the graph has a cycle of {len(names)} steps: {' -> '.join(shown)} -> the first again"


def _node_name(graph: Graph, node: int) -> str:
    lane = int(np.searchsorted(graph.lane_ptr, node, side="right")) - 1
    name = NodeKind(graph.nodes["kind"][node]).name.lower()
    return f"{name} (node {node}, rank {graph.lanes['rank'][lane]})"


def _op_name(graph: Graph, op: int) -> str:
    row = graph.ops[op]
    return f"{OpKind(row['kind']).name.lower()} {row['seq']} on group {graph.groups[row['group']].name!r} (op {op})"


def _check_length(name: str, values: Int64, expected: int, unit: str) -> None:
    if values.shape[-1] != expected:
        raise ValueError(f"{name} has {values.shape[-1]} values on its last axis; the plan has {expected} {unit}")


def _prefixed(values: Int64) -> Int64:
    """The values with a zero in front of the last axis."""
    padded: npt.NDArray[np.int64] = np.zeros((*values.shape[:-1], values.shape[-1] + 1), np.int64)
    padded[..., 1:] = values
    return padded
