"""Routing: the graph of a mixture of experts whose tokens go to ranks in another proportion.

On every route (routes.py beside this) tokens are dealt anew (skew.py). What a rank computes on what it got, until it
sends it back, takes time in proportion. Nothing else changes; the exchange of sizes stays as it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from prism.core.graph import ITEMSIZE, Graph, Int64, NodeKind
from prism.core.levels import ranges
from prism.core.what_if.routes import Routes, find_routes, segments
from prism.core.what_if.skew import skewed

BYTES = np.array(list(ITEMSIZE.values()))
"""Of one element, by row in DTYPES."""


def with_routing(graph: Graph, hottest: float, group: str | None = None) -> Graph:
    """The graph in which the busiest member of every route gets `hottest` times the mean of its members.

    group: the name of the groups whose routes change; None: all. Raises ValueError if no group has that name, if there
    is no route, or if one has fewer than `hottest` members.
    """
    if group is not None and all(group != each.name for each in graph.groups):
        names = dict.fromkeys(each.name for each in graph.groups)
        raise ValueError(f"no group is called {group!r}, choose from {', '.join(names)}")
    found = list(find_routes(graph, group))
    if not found:
        raise ValueError("no all_to_all is followed by one of its group that gives back to each what came from it")
    ops, splits, duration = graph.ops.copy(), graph.splits.copy(), graph.nodes["duration"].astype(np.float64)
    for routes in found:
        if hottest > routes.members:
            name = graph.groups[ops["group"][routes.there[0]]].name
            raise ValueError(f"group {name} has {routes.members} ranks, none can get {hottest:g} times the mean")
        there, back = routes.cells(graph, routes.there), routes.cells(graph, routes.back)
        size = BYTES[ops["dtype"][routes.there]][:, None, None]
        before = graph.splits[there]
        after = skewed(before // size, hottest) * size
        splits[there], splits[back] = after, after.transpose(0, 2, 1)
        ops["nbytes"][routes.back] = after.sum(axis=1).max(axis=1)
        _stretch(graph, routes, before.sum(axis=1), after.sum(axis=1), duration)
    changed = replace(graph, ops=ops, splits=splits)
    return changed.with_durations(np.rint(duration).astype(np.int64), graph.clock)


def _stretch(graph: Graph, routes: Routes, before: Int64, after: Int64, duration: npt.NDArray[np.float64]) -> None:
    """Change the durations of what members compute on what they get, before and after: int64[routes, members] bytes."""
    first, last = segments(graph, routes)
    node = ranges(first.ravel(), last.ravel())
    row = np.repeat(np.arange(first.size), (last - first).ravel())
    busy = before > 0
    took = np.where(busy, np.bincount(row, duration[node], first.size).reshape(first.shape), 0)
    np.multiply.at(duration, node, np.where(busy, after / np.maximum(before, 1), 1.0).ravel()[row])
    # Who got nothing has shown no time for it: what it gets takes as long as the others took for as much.
    rate = took.sum(axis=1, keepdims=True) / np.maximum(before.sum(axis=1, keepdims=True), 1)
    idle = ~busy & (last > first) & (graph.nodes["kind"][last - 1] == NodeKind.COMPUTE)
    np.add.at(duration, last[idle] - 1, (rate * after)[idle])
