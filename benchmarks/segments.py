"""Calibrated segments of a rank against the same ones of a plain run of it, which programs/segmented.py times.

A segment here is what lies between two posts, or a post and the end of an iteration, waits included; of each the median
over the iterations counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from prism.core.graph import Graph, NodeKind

Iterations = Sequence[Sequence[float]]
"""Of each iteration its segments, in ms."""


class Errors(NamedTuple):
    """Of one run's segments against those of another: their number, and means of the errors without their signs.

    plain: of all segments alike; by_time: of the time that lies in them; iteration: of their sum, with its sign.
    """

    segments: int
    plain: float
    by_time: float
    iteration: float


def calibrated(graph: Graph, rank: int) -> list[list[float]]:
    """The segments of a rank from the first mark on, as segmented.py tells them."""
    lane = int(np.flatnonzero(graph.lanes["rank"] == rank)[0])
    found: list[list[float]] = []
    sofar = 0
    for node in graph.nodes[graph.lane_ptr[lane] : graph.lane_ptr[lane + 1]]:
        sofar += int(node["duration"])
        if node["kind"] not in (NodeKind.POST, NodeKind.MARK):
            continue
        if found:
            found[-1].append(sofar / 1e6)
        if node["kind"] == NodeKind.MARK:
            found.append([])
        sofar = 0
    return found[:-1]


def compared(ours: Iterations, theirs: Iterations, warmup: int) -> Errors:
    """Errors of ours; raises ValueError where iterations after the warm-up are not all of as many segments."""
    counts = {len(one) for one in (*ours[warmup:], *theirs[warmup:])}
    if len(counts) != 1:
        raise ValueError(f"iterations have {sorted(counts)} segments")
    mine, other = (
        np.array([statistics.median(column) for column in zip(*run[warmup:], strict=True)]) for run in (ours, theirs)
    )
    apart = np.abs(mine - other)
    return Errors(
        segments=len(other),
        plain=float((apart / other).mean()),
        by_time=float(apart.sum() / other.sum()),
        iteration=float(mine.sum() / other.sum() - 1),
    )
