"""Sampling: which of the ranks that do the same are measured, and whether those speak for the others.

Ranks of one class (see signatures.ranks_alike) do the same operations. That their computing takes the same time is a
guess: their data may differ, or one of their devices may be slow. So several of each class are measured, and they have
to agree iteration by iteration. Medians alone would not do: in a job with sequences of different lengths they may agree
while no iteration does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, NodeKind
from prism.core.measuring.calibration import NOT_MEASURED, compute_nodes

T = TypeVar("T", np.int64, np.bool_)

ONE_IN = 16
"""So many ranks of a class have one sample, besides the first."""

GOLDEN = 0.6180339887498949
"""Its multiples modulo 1 are spread evenly, and have no period that a mesh of ranks could share."""

TOLERANCE = 0.05
"""By how much two ranks may differ in an iteration, relative to the first: what a prediction may be wrong by for it."""

FLOOR = 200_000
"""ns by which they may differ in any case: so much comes from the interpreter and the scheduler in any iteration."""

EXCUSED = 0.25
"""The part of the iterations that may differ, for what disturbed the measurement of one rank."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The computing of a rank beside that of the first of its class, iteration by iteration, in ns."""

    first: int
    rank: int
    iterations: int  # that both were measured in, after the warm-up
    differing: int  # those that differ by more than is tolerated
    most: int  # the iteration in which they differ most, counted from 0 with the warm-up
    times: tuple[int, int]  # of the first and of the rank there
    typical: float  # the median of the differences, relative to the first

    @property
    def agrees(self) -> bool:
        """Whether one may stand for the other."""
        return self.differing <= EXCUSED * self.iterations


def sample(ranks: Sequence[int]) -> tuple[int, ...]:
    """The ranks of a class that are measured: one in every ONE_IN and one more, each from its own part of the class."""
    size = len(ranks)
    count = min(size, 1 + -(-size // ONE_IN))
    bounds = [part * size // count for part in range(count + 1)]
    offsets = [(0.5 + part * GOLDEN) % 1 for part in range(count)]
    return tuple(ranks[bounds[i] + int(offsets[i] * (bounds[i + 1] - bounds[i]))] for i in range(count))


def compare(graph: Graph, measured: Int64, durations: Int64, ranks: Sequence[int], warmup: int) -> list[Comparison]:
    """Compare the other ranks of a class with its first, all of them measured.

    `measured` says what was, `durations` is what calibration made of it; both int64[nodes] ns.
    """
    first, *others = (_iteration_times(graph, measured, durations, rank, warmup) for rank in ranks)
    return [_comparison(ranks[0], rank, first, times, warmup) for rank, times in zip(ranks[1:], others, strict=True)]


def share(graph: Graph, values: npt.NDArray[T], measured: Sequence[int], others: Sequence[int]) -> npt.NDArray[T]:
    """Give the other ranks of a class the medians of those that were measured, node by node; values: [nodes]."""
    if not others:
        return values
    shared = values.copy()
    typical = np.rint(np.median([values[_nodes(graph, rank)].astype(float) for rank in measured], axis=0))
    for rank in others:
        shared[_nodes(graph, rank)] = typical
    return shared


def _comparison(first: int, rank: int, times: Int64, others: Int64, warmup: int) -> Comparison:
    iterations = min(len(times), len(others))
    times, others = times[:iterations], others[:iterations]
    difference = np.abs(others - times)
    most = int(difference.argmax())
    return Comparison(
        first=first,
        rank=rank,
        iterations=iterations,
        differing=int((difference > np.maximum(TOLERANCE * times, FLOOR)).sum()),
        most=warmup + most,
        times=(int(times[most]), int(others[most])),
        typical=float(np.median(difference / np.maximum(times, 1))),
    )


def _iteration_times(graph: Graph, measured: Int64, durations: Int64, rank: int, warmup: int) -> Int64:
    """The computing of a rank in each measured iteration after the warm-up; in its whole program if there is none."""
    nodes = compute_nodes(graph, rank)
    mine = _nodes(graph, rank)
    marks = mine.start + np.flatnonzero(graph.nodes["kind"][mine] == NodeKind.MARK)
    missing = nodes[measured[nodes] == NOT_MEASURED]
    ended = np.searchsorted(marks, missing.min(initial=mine.stop))
    bounds = np.searchsorted(nodes, marks[:ended])
    total = np.concatenate([[0], np.cumsum(durations[nodes])])
    times: Int64 = np.diff(total[bounds], prepend=0)[warmup:]
    return times if times.size else total[-1:]


def _nodes(graph: Graph, rank: int) -> slice:
    """The nodes of all lanes of a rank."""
    first, last = np.searchsorted(graph.lanes["rank"], [rank, rank + 1])
    return slice(int(graph.lane_ptr[first]), int(graph.lane_ptr[last]))
