"""Calibration: from measured compute segments to the durations of the graph.

Every slice measured the compute nodes of its ranks once, over the whole program or its first iterations. Each
iteration keeps its own durations: sequences differ in length, and experts in load, where no collective shows it.
Iterations of one lane that do the same thing (after the warm-up) tell how far a segment usually spreads; a measurement
outside of that, as when something else took the core, is an outlier and takes their median. It shows in the spread and
not in the prediction. What was not measured takes their median too, and so do iterations in which the host of a rank
was held ahead of its device (prism.core.measuring.lead): what they take less than others is the slack of the others.
For that iterations count as alike where only the sizes of operations differ. Where all that are alike were held, a
segment takes as long as its host or its device needs, whichever is longer. A host that needs less than its device has
left none: there the device was faster because it had rested before.

Slices were measured apart, each with its own idea of when the others answer. Putting all slices' durations into the
one graph and evaluating it (replay.evaluate) makes their clocks one: no op starts before its last post.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, NodeKind, Table
from prism.core.measuring.lead import Timings
from prism.core.measuring.segments import AFTER, FREE, WAITED, Segments
from prism.core.measuring.signatures import iteration_codes

NOT_MEASURED = -1
"""In place of a duration."""

SURE = 0.05
"""The share of a segment that its slack has to have."""

SPREAD = np.dtype(
    [("lane", "<i4"), ("node", "<i4"), ("samples", "<i4"), ("outliers", "<i4"), ("median", "<i8"), ("iqr", "<i8")]
)
"""One segment class: lane, node (its COMPUTE node in the first iteration that counts), samples (iterations), outliers
(samples more than 1.5 interquartile ranges outside the quartiles: Tukey's fences), median and iqr in ns."""

Bool = npt.NDArray[np.bool_]

Changes = Mapping[int, Collection[int]]
"""The iterations at which a rank becomes another, by a fault that begins or ends; before and after are not alike."""

UNCHANGED: Changes = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Calibration:
    """What to replay with, and how sure it is."""

    timings: Timings  # durations are NOT_MEASURED where nothing alike was measured
    spread: Table  # SPREAD, one row a segment class


def compute_nodes(graph: Graph, rank: int) -> Int64:
    """The COMPUTE nodes of a rank's first lane, in program order: where its measured segments belong."""
    return _nodes(graph, rank, NodeKind.COMPUTE)


def place(graph: Graph, measured: Int64, hosts: Int64, rank: int, segments: Segments) -> None:
    """Put a rank's first segments into `measured`, and what its host needs for them into `hosts`, int64[nodes] ns both.

    What follows the last mark of a rank that was ended before it came there takes no time.
    """
    nodes, marks = compute_nodes(graph, rank), _nodes(graph, rank, NodeKind.MARK)
    measured[nodes[nodes > marks.max(initial=-1)]] = 0
    measured[nodes[: len(segments.durations)]] = segments.durations
    hosts[nodes] = FREE
    for number, needs in segments.hosts:
        hosts[nodes[number]] = needs


def iterations_to_run(graph: Graph, wanted: int, warmup: int, changes: Changes = UNCHANGED) -> Int64:
    """How many iterations each rank has to run to be measured, int64[world]; 0: its whole program.

    `wanted` are enough, unless a later iteration is like none of those after the warm-up: then as many as include it. A
    rank that ends fewer iterations than others runs whole, for what follows its last one is part of theirs.
    """
    marks = graph.node_rank()[graph.nodes["kind"] == NodeKind.MARK]
    ended = np.bincount(marks, minlength=graph.world_size)
    needed = np.full(graph.world_size, wanted)
    for lane, iterations in _alike(graph, warmup, changes):
        rank = graph.lanes["rank"][lane]
        first = graph.nodes["ref"][iterations[0, -1]]  # an iteration ends with its mark
        needed[rank] = max(needed[rank], first + 1)
    return np.where(ended < ended.max(), 0, needed)


def calibrate(
    graph: Graph, measured: Int64, warmup: int, changes: Changes = UNCHANGED, hosts: Int64 | None = None
) -> Calibration:
    """Calibrated durations from one measurement of the COMPUTE nodes (int64[nodes] ns; other nodes are ignored).

    hosts: what hosts need, int64[nodes] ns, or FREE, WAITED, AFTER; left out, FREE. Iterations before `warmup` of each
    lane are warm-up. An iteration that was NOT_MEASURED takes the medians of those that are alike, and stays as it is
    where none of them was measured. Medians and quartiles are linear (Hyndman and Fan, type 7), rounded to the nearest
    ns. Raises ValueError on a wrong length or a negative duration.
    """
    compute = graph.nodes["kind"] == NodeKind.COMPUTE
    if measured.shape != compute.shape:
        raise ValueError(f"measured has shape {measured.shape}; the graph has {compute.size} nodes")
    negative = np.flatnonzero(compute & (measured < NOT_MEASURED))
    if negative.size:
        raise ValueError(f"node {negative[0]} has a negative measured duration")
    hosts = np.full(compute.size, FREE) if hosts is None else hosts
    timings = Timings(np.where(compute, measured, 0), np.zeros(compute.size, np.int64), np.zeros(compute.size, bool))
    durations = timings.durations
    if (hosts != FREE).any():
        for _, iterations in _alike(graph, warmup, changes, sizes=False):
            nodes = iterations[:, compute[iterations[0]]]
            _compare_hosts(measured[nodes], hosts[nodes], nodes, timings)
    spread = []
    for lane, iterations in _alike(graph, warmup, changes):
        nodes = iterations[:, compute[iterations[0]]]  # iterations x segments
        ran, free = _ran(measured[nodes]), _free(hosts[nodes])
        counts = ran & free if (ran & free).any() else ran
        if counts.any():
            row, durations[nodes] = _settle(durations[nodes], counts)
            row["lane"], row["node"] = lane, nodes[0]
            spread.append(row)
    timings.slack[timings.slack < SURE * durations] = 0
    np.minimum(timings.slack, np.maximum(durations, 0), out=timings.slack)
    return Calibration(timings, np.concatenate([np.empty(0, SPREAD), *spread]))


def _nodes(graph: Graph, rank: int, kind: NodeKind) -> Int64:
    lane = int(np.flatnonzero(graph.lanes["rank"] == rank)[0])
    first, last = int(graph.lane_ptr[lane]), int(graph.lane_ptr[lane + 1])
    return first + np.flatnonzero(graph.nodes["kind"][first:last] == kind)


def _compare_hosts(samples: Int64, hosts: Int64, nodes: Int64, timings: Timings) -> None:
    """Note what alike iterations (iterations x segments) in which a host was held ahead tell of the others."""
    ran, free = _ran(samples), _free(hosts)
    counts, ahead = ran & free, ran & ~free & (hosts != AFTER).all(axis=1)
    if not ahead.any():
        return
    far, needs = _median(samples[ahead]), _median(hosts[ahead])
    waits = (hosts[ahead] == WAITED).mean(axis=0) > 0.5
    typical = _median(samples[counts]) if counts.any() else np.maximum(far, needs)
    timings.durations[nodes[ran & ~free]] = typical
    timings.slack[nodes] = np.where(waits | (needs > far), np.maximum(typical - far, 0), 0)
    timings.waited[nodes] = waits


def _ran(samples: Int64) -> Bool:
    """Which iterations (iterations x segments) were measured."""
    ran: Bool = (samples != NOT_MEASURED).all(axis=1)
    return ran


def _free(hosts: Int64) -> Bool:
    """In which iterations (iterations x segments) nobody held the host, nor in the one before."""
    free: Bool = (hosts == FREE).all(axis=1)
    return free


def _median(samples: Int64) -> Int64:
    median: Int64 = np.rint(np.median(samples, axis=0)).astype(np.int64)
    return median


def _settle(samples: Int64, counts: Bool) -> tuple[Table, Int64]:
    """The spread of those alike iterations (iterations x segments) that count, and the durations to use for all."""
    low, median, high = np.rint(np.percentile(samples[counts], (25, 50, 75), axis=0)).astype(np.int64)
    fence = 1.5 * (high - low)
    outlying = (samples < low - fence) | (samples > high + fence)
    row = np.empty(len(median), SPREAD)
    row["samples"], row["outliers"] = counts.sum(), outlying[counts].sum(axis=0)
    row["median"], row["iqr"] = median, high - low
    return row, np.where(outlying | ~counts[:, None], median, samples)


def spread_quantiles(spread: Table, shares: Sequence[float]) -> list[float] | None:
    """How far segments spread (interquartile range over median) at these shares of the compute time, ascending.

    At 0.5: half of the time is spent in segments that spread no more. None if no segment was measured twice.
    """
    told = spread[(spread["samples"] > 1) & (spread["median"] > 0)]
    if not told.size:
        return None
    relative = told["iqr"] / told["median"]
    order = np.argsort(relative)
    time = np.cumsum((told["median"] * told["samples"])[order])
    found: list[float] = relative[order][np.searchsorted(time, np.array(shares) * time[-1])].tolist()
    return found


def _alike(graph: Graph, warmup: int, changes: Changes, sizes: bool = True) -> Iterator[tuple[int, Int64]]:
    """Each lane's sets of iterations that are alike: the lane, and the nodes, iterations x length."""
    codes = iteration_codes(graph, sizes)
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
