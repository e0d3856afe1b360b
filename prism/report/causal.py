"""An order in which a rank's nodes can be told, so that whatever a node needs has been told before it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prism.core.graph import Graph, Int64, Timeline
from prism.core.timeline.replay import Plan


def rank_nodes(graph: Graph, timeline: Timeline, plan: Plan) -> Iterator[tuple[int, Int64]]:
    """Each rank with its nodes, of all its lanes, in the order of time.

    Nodes that end together keep the order of the plan, whose points are numbered so that causes come first.
    """
    rank = graph.node_rank()
    order = np.lexsort((plan.home, timeline.node_end, rank))
    bounds = np.searchsorted(rank[order], np.arange(graph.world_size + 1))
    for number in range(graph.world_size):
        yield number, order[bounds[number] : bounds[number + 1]]
