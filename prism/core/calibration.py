"""Calibration: from measured compute segments to the durations of the graph.

Every slice measured the compute nodes of its ranks once, over the whole program. Each iteration keeps its own
durations: sequences differ in length, and experts in load, where no collective shows it. Iterations of one lane that do
the same thing (after the warm-up) tell how far a segment usually spreads; a measurement outside of that, as when
something else took the core, is an outlier and takes their median. It shows in the spread and not in the prediction.

Slices were measured apart, each with its own idea of when the others answer. Putting all slices' durations into the
one graph and evaluating it (replay.evaluate) makes their clocks one: no op starts before its last post.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, NodeKind, Table

SPREAD = np.dtype(
    [("lane", "<i4"), ("node", "<i4"), ("samples", "<i4"), ("outliers", "<i4"), ("median", "<i8"), ("iqr", "<i8")]
)
"""One segment class: lane, node (its COMPUTE node in the first iteration that counts), samples (iterations), outliers
(samples more than 1.5 interquartile ranges outside the quartiles: Tukey's fences), median and iqr in ns."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What to replay with: durations, int64[nodes] ns, and how sure they are."""

    durations: Int64
    spread: Table  # SPREAD, one row a segment class


def compute_nodes(graph: Graph, rank: int) -> Int64:
    """The COMPUTE nodes of a rank's first lane, in program order: where its measured segments belong."""
    lane = int(np.flatnonzero(graph.lanes["rank"] == rank)[0])
    first, last = int(graph.lane_ptr[lane]), int(graph.lane_ptr[lane + 1])
    return first + np.flatnonzero(graph.nodes["kind"][first:last] == NodeKind.COMPUTE)


def calibrate(
    graph: Graph, measured: Int64, warmup: int, changes: Mapping[int, Collection[int]] = MappingProxyType({})
) -> Calibration:
    """Calibrated durations from one measurement of every COMPUTE node (int64[nodes] ns; other nodes are ignored).

    Iterations before number `warmup` of each lane are warm-up. `changes`: the iterations at which a rank becomes
    another, by a fault that begins or ends; those before and after are not alike. Medians and quartiles are linear
    (Hyndman and Fan, type 7), rounded to the nearest ns. Raises ValueError on a wrong length or a negative duration.
    """
    compute = graph.nodes["kind"] == NodeKind.COMPUTE
    if measured.shape != compute.shape:
        raise ValueError(f"measured has shape {measured.shape}; the graph has {compute.size} nodes")
    if (measured[compute] < 0).any():
        raise ValueError(f"node {np.flatnonzero(compute & (measured < 0))[0]} has a negative measured duration")
    durations = np.where(compute, measured, 0)
    spread = []
    for lane, iterations in _alike(graph, warmup, changes):
        segments = np.flatnonzero(compute[iterations[0]])
        nodes = iterations[:, segments]  # iterations x segments
        low, median, high = np.rint(np.percentile(durations[nodes], (25, 50, 75), axis=0)).astype(np.int64)
        outlying = _outliers(durations[nodes], low, high)
        spread.append(_spread(lane, nodes, outlying, median, high - low))
        durations[nodes] = np.where(outlying, median, durations[nodes])
    return Calibration(durations, np.concatenate([np.empty(0, SPREAD), *spread]))


def _outliers(samples: Int64, low: Int64, high: Int64) -> npt.NDArray[np.bool_]:
    """Which samples lie outside of Tukey's fences."""
    fence = 1.5 * (high - low)
    outside: npt.NDArray[np.bool_] = (samples < low - fence) | (samples > high + fence)
    return outside


def _spread(lane: int, nodes: Int64, outlying: npt.NDArray[np.bool_], median: Int64, iqr: Int64) -> Table:
    rows = np.empty(nodes.shape[1], SPREAD)
    rows["lane"], rows["node"], rows["samples"] = lane, nodes[0], len(nodes)
    rows["outliers"], rows["median"], rows["iqr"] = outlying.sum(axis=0), median, iqr
    return rows


def _alike(graph: Graph, warmup: int, changes: Mapping[int, Collection[int]]) -> Iterator[tuple[int, Int64]]:
    """Each lane's sets of measured iterations that are alike: the lane, and the nodes, iterations x length."""
    codes = _signature_codes(graph)
    marks = np.flatnonzero(graph.nodes["kind"] == NodeKind.MARK)
    for lane, (first, last) in enumerate(zip(graph.lane_ptr[:-1], graph.lane_ptr[1:], strict=True)):
        inside = marks[np.searchsorted(marks, first) : np.searchsorted(marks, last)]
        bounds = [int(first), *(inside + 1).tolist()]
        of_rank = changes.get(int(graph.lanes["rank"][lane]), ())
        classes: dict[tuple[int, bytes], list[int]] = {}
        for iteration, (start, end) in islice(enumerate(pairwise(bounds)), warmup, None):
            era = sum(change <= iteration for change in of_rank)
            classes.setdefault((era, codes[start:end].tobytes()), []).append(start)
        for (_, signature), starts in classes.items():
            length = len(signature) // codes.itemsize
            yield lane, np.array(starts)[:, None] + np.arange(length)


def _signature_codes(graph: Graph) -> Int64:
    """A number for what each node does, equal for nodes that do the same: int64[nodes].

    That is the kind of the node; for a POST also the op (kind, reduce op, dtype, group, root, tag, bytes, and the first
    and last member, which tell messages apart) and the member that posts; for a WAIT the number of ops.
    """
    ops, nodes = graph.ops, graph.nodes
    members = np.diff(graph.post_ptr)
    names = ("kind", "reduce", "dtype", "group", "root", "tag", "nbytes")
    ranks = graph.node_rank()[graph.posts]
    ends = np.where(members > 0, [graph.post_ptr[:-1], graph.post_ptr[1:] - 1], 0)
    peers = ranks[ends] if ranks.size else ends
    op_code = np.repeat(_number([*(ops[name] for name in names), *peers]), members)
    member = np.arange(len(graph.posts)) - np.repeat(graph.post_ptr[:-1], members)
    detail = np.zeros(len(nodes), np.int64)
    detail[graph.posts] = _number([op_code, member])
    waits = np.flatnonzero(nodes["kind"] == NodeKind.WAIT)
    detail[waits] = np.diff(graph.wait_ptr)[nodes["ref"][waits]]
    code: Int64 = detail * len(NodeKind) + nodes["kind"]
    return code


def _number(columns: Iterable[npt.NDArray[np.integer]]) -> Int64:
    """Number the distinct rows of these columns; equal rows get equal numbers."""
    table = np.stack(list(columns)).astype(np.int64)
    order = np.lexsort(table)
    differs = (np.diff(table[:, order], axis=1) != 0).any(axis=0)
    numbers = np.zeros(table.shape[1], np.int64)
    numbers[order[1:]] = np.cumsum(differs)
    return numbers
