"""How far hosts run ahead of their devices while these wait for each other, and what that saves.

A rank is timed alone, with every operation answered at once. If its host is slower than its device, the device idles in
every segment. Among the others the device also waits, and the host launches on meanwhile: it has a lead then, and the
device finds work where it idled. So of each segment two figures are known: how long it takes with the lead that the
host has by itself, and its *slack*, by how much less it takes with a host that is far ahead. Whatever the device waits
for others adds to the lead, whatever slack it fills takes that off again, and a host that waits for its device has none
left.

In the sums below S is what has been added and taken off so far; a lead that would be less than nothing is nothing. So
the lead before a node is S less the least that S has been since the last reset.

What a lead saves in a graph depends on what was before alone. So each round of evaluating the graph is right for one
more level of it than the round before, and as many rounds as there are levels are always enough. Mostly far fewer are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, NodeKind, OpKind
from prism.core.timeline.replay import evaluate, make_plan

ENOUGH = 1_000
"""ns by which no segment changes any more in the last round."""
HOST_WAITS = frozenset({OpKind.BARRIER})
"""Operations for which the host waits, whatever their backend."""


@dataclass(frozen=True, slots=True)
class Timings:
    """The nodes of a graph as they were timed; int64[nodes] ns, but for `waited`, bool[nodes]."""

    durations: Int64
    slack: Int64  # of COMPUTE nodes, at most their duration
    waited: npt.NDArray[np.bool_]  # COMPUTE nodes in which the host waits for its device


def run_ahead(graph: Graph, timings: Timings, costs: Int64) -> Int64:
    """The durations of the nodes in the run of all ranks, int64[nodes] ns; costs: int64[ops] ns."""
    if not timings.slack.any():
        return timings.durations
    plan, resets = make_plan(graph), _resets(graph, timings)
    durations = timings.durations
    for _ in plan.bounds:
        timeline = evaluate(plan, durations, costs)
        stalls = np.where(graph.nodes["kind"] == NodeKind.WAIT, timeline.node_end - timeline.node_start, 0)
        before = durations
        durations = timings.durations - np.minimum(leads(stalls - timings.slack, resets), timings.slack)
        if np.abs(durations - before).max() <= ENOUGH:
            break
    return durations


def leads(changes: Int64, resets: npt.NDArray[np.bool_]) -> Int64:
    """The lead before each node, of what each node adds to it or takes off, int64[nodes] ns.

    resets: the nodes before which there is none, whatever was before; the first one is.
    """
    firsts, block = np.flatnonzero(resets), np.cumsum(resets) - 1
    moved = np.concatenate([[0], np.cumsum(np.abs(changes))])
    before = np.cumsum(changes) - changes
    within = before - before[firsts][block]
    # So far down does each block lie that no earlier one is below it: by all that S moves up to its start, and its end.
    down = (moved[firsts] + moved[np.append(firsts[1:], len(changes))])[block]
    lead: Int64 = within - (np.minimum.accumulate(within - down) + down)
    return lead


def _resets(graph: Graph, timings: Timings) -> npt.NDArray[np.bool_]:
    """The nodes before which a host has no lead: the first ones, and those after its waits."""
    nodes = graph.nodes
    waits = np.flatnonzero(nodes["kind"] == NodeKind.WAIT)
    first, last = graph.wait_ptr[nodes["ref"][waits]], graph.wait_ptr[nodes["ref"][waits] + 1]
    on_host = np.array([group.backend != "nccl" for group in graph.groups], bool)[graph.ops["group"]]
    on_host |= np.isin(graph.ops["kind"], list(HOST_WAITS))
    seen = np.concatenate([[0], np.cumsum(on_host[graph.wait_ops])])
    after = np.array(timings.waited)
    after[waits[seen[last] > seen[first]]] = True
    resets = np.concatenate([[False], after[:-1]])
    resets[graph.lane_ptr[:-1][np.diff(graph.lane_ptr) > 0]] = True
    return resets
