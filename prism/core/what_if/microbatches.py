"""Micro-batches: the graph of a pipeline whose iterations have another number of them.

In each iteration of each rank the piece is found that repeats with the micro-batches (steady.py beside this). It is
gone through more often, or less often; what is added takes the durations of the repetitions that there are, in turns.
What comes before and after, such as the warm-up of 1F1B, stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind
from prism.core.levels import pointers, ranges
from prism.core.what_if.periods import Period
from prism.core.what_if.phases import Iteration, Pattern, Phase, find_phases
from prism.core.what_if.repetition import repeated
from prism.core.what_if.steady import steady_periods
from prism.core.what_if.steps import Steps, find_steps


def with_micro_batches(graph: Graph, before: int, after: int) -> Graph:
    """The graph of the job with `after` micro-batches in each iteration in place of `before`.

    Raises ValueError naming the rank at which, and why, the graph does not tell what the job would do.
    """
    if np.unique(graph.lanes["rank"]).size < len(graph.lanes):
        raise ValueError("a rank has several lanes, whose events would have to be repeated with them")
    if before == after:
        return graph
    steps = find_steps(graph)
    found = find_phases(steps, _iterations(graph, steps), before)
    if not found:
        told = "micro-batches are told by the messages of a pipeline"
        raise ValueError(f"no rank sends {before} like messages in an iteration, or a multiple of that; {told}")
    periods: dict[int, list[Period]] = defaultdict(list)
    known: dict[tuple[Pattern, tuple[Phase, ...]], list[Period]] = {}
    for (lane, iteration, start, _), pattern, phases in found:
        if (pattern, phases) not in known:
            try:
                known[pattern, phases] = steady_periods(pattern, phases, before, after)
            except ValueError as error:
                raise ValueError(f"rank {graph.lanes['rank'][lane]}, iteration {iteration}: {error}") from None
        periods[lane] += [period._replace(start=start + period.start) for period in known[pattern, phases]]
    taken = [_taken(graph, steps, lane, periods[lane]) for lane in range(len(graph.lanes))]
    lane_ptr = pointers(np.array([len(nodes) for nodes in taken], np.int64))
    return repeated(graph, np.concatenate(taken), lane_ptr)


def _iterations(graph: Graph, steps: Steps) -> list[Iteration]:
    """All iterations that end with a mark, lane by lane."""
    marks = np.flatnonzero(graph.nodes["kind"][steps.end - 1] == NodeKind.MARK)
    found = []
    for lane, (start, end) in enumerate(zip(steps.lane_ptr[:-1], steps.lane_ptr[1:], strict=True)):
        begin = int(start)
        for number, mark in enumerate(marks[np.searchsorted(marks, start) : np.searchsorted(marks, end)].tolist()):
            found.append(Iteration(lane, number, begin, mark))
            begin = mark + 1
    return found


def _taken(graph: Graph, steps: Steps, lane: int, periods: Sequence[Period]) -> Int64:
    """The nodes that a lane is made of once each period comes as often as it shall."""
    first, last = [graph.lane_ptr[lane : lane + 1]], []
    for start, length, times, more in periods:
        piece = start + length * (np.arange(times + more) % times)
        last += [steps.first[start : start + 1], steps.end[piece + length - 1]]
        first += [steps.first[piece], steps.end[start + times * length - 1 :][:1]]
    last.append(graph.lane_ptr[lane + 1 : lane + 2])
    return ranges(np.concatenate(first), np.concatenate(last))
