"""What lies between touching ops: the points by way of which their virtual posts follow from the ends of others.

Theory of operation. Of the points of a replay plan only those count from which a virtual post of a touching op can be
reached through virtual lanes and ops that do not touch. With the origin and the ends of the touching ops they are a
graph of their own. An edge leads to an end from each point that a virtual post of its op counts from; what else an end
depends on is no matter of virtual ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prism.core.emulation.paths import Mask
from prism.core.emulation.touching import Touching
from prism.core.graph import Graph, Int64, InvalidGraph
from prism.core.levels import pointers, ranges
from prism.core.timeline.replay import ORIGIN, Plan


@dataclass(frozen=True, slots=True)
class VirtualPoints:
    """Points in topological levels and the edges into them; point 0, the origin, has none, all others have some.

    Only the end of an op without virtual members has none either.
    """

    end: Int64  # touching ops: the point that is its end
    prev: Int64  # points: of an end that of the op before in the channel, else the origin; -1 of other points
    cost: Int64  # points: of an end the cost of its op, ns; 0 of other points
    source: Int64  # edges, sorted by target: the point they come from
    weight: Int64  # edges: ns; the cost of a touching op is in its end
    edge_ptr: Int64  # points + 1: the edges into point p are edge_ptr[p]:edge_ptr[p + 1]
    bounds: Int64  # levels + 1: the points of level k are bounds[k]:bounds[k + 1]

    def __len__(self) -> int:
        return len(self.edge_ptr) - 1

    def levels(self) -> Iterator[tuple[slice, slice]]:
        """The points of each level but the origin's, and the edges into them."""
        bounds = self.bounds.tolist()
        edges = self.edge_ptr[self.bounds].tolist()
        for level in range(1, len(bounds) - 1):
            yield slice(bounds[level], bounds[level + 1]), slice(edges[level], edges[level + 1])

    def posts(self) -> Int64:
        """The edge that is each virtual post, op by op in the order of Touching.virtual."""
        return ranges(self.edge_ptr[self.end], self.edge_ptr[self.end + 1])


def find_points(graph: Graph, plan: Plan, touching: Touching, durations: Int64, costs: Int64) -> VirtualPoints:
    """The points of a planned graph; durations: int64[nodes] ns, costs: int64[ops] ns.

    Raises InvalidGraph if a virtual lane waits for an event of a sandbox rank: only ops may join the two.
    """
    op, node = _virtual_posts(graph, touching)
    is_root = np.zeros(len(plan.edge_ptr) - 1, np.bool_)
    is_root[ORIGIN] = True
    is_root[plan.op_point[touching.op]] = True
    inner = _between(plan, is_root, plan.home[node])
    if inner[plan.home[np.isin(graph.node_rank(), touching.sandbox)]].any():
        raise InvalidGraph("a virtual rank waits for an event of a sandbox rank; put both in the sandbox, or neither")
    points, kept = np.flatnonzero(inner), np.flatnonzero(inner | is_root)
    number = np.cumsum(inner | is_root) - 1
    end, at = number[plan.op_point[touching.op]], number[points]
    count = np.zeros(len(kept), np.int64)
    count[at] = np.diff(plan.edge_ptr)[points]
    count[end] = np.bincount(op, minlength=len(end))
    edge_ptr = pointers(count)
    source, weight = np.empty((2, edge_ptr[-1]), np.int64)
    done = np.concatenate(([0], np.cumsum(durations, dtype=np.int64)))
    posts, edges = ranges(edge_ptr[end], edge_ptr[end + 1]), ranges(edge_ptr[at], edge_ptr[at + 1])
    source[posts], weight[posts] = number[plan.home[node]], done[node]
    planned = ranges(plan.edge_ptr[points], plan.edge_ptr[points + 1])
    source[edges] = number[plan.source[planned]]
    cost = np.append(0, np.where(touching.number < 0, costs, 0))
    weight[edges] = done[plan.gain[planned]] - done[plan.loss[planned]] + cost[plan.cost[planned]]
    prev, charged = np.full(len(kept), -1), np.zeros(len(kept), np.int64)
    prev[end], charged[end] = np.append(end, 0)[touching.prev], costs[touching.op]
    return VirtualPoints(end, prev, charged, source, weight, edge_ptr, np.unique(np.searchsorted(kept, plan.bounds)))


def _virtual_posts(graph: Graph, touching: Touching) -> tuple[Int64, Int64]:
    """The touching op and the node of each virtual post, op by op as in Touching.virtual."""
    member_op = np.repeat(np.arange(len(touching.op)), np.diff(touching.member_ptr))
    op = np.repeat(member_op, touching.arc)
    place = ranges(touching.member + 1, touching.member + 1 + touching.arc) % touching.size[op]
    return op, graph.posts[graph.post_ptr[touching.op[op]] + place]


def _between(plan: Plan, is_root: Mask, ends: Int64) -> Mask:
    """The points, but for roots, from which these ends are reached without passing a root."""
    passed = np.zeros_like(is_root)
    passed[ends] = True
    edge_bounds = plan.edge_ptr[plan.bounds]
    for level in range(len(plan.bounds) - 2, 0, -1):
        points = slice(plan.bounds[level], plan.bounds[level + 1])
        passed[points] &= ~is_root[points]
        into = np.repeat(passed[points], np.diff(plan.edge_ptr[points.start : points.stop + 1]))
        passed[plan.source[edge_bounds[level] : edge_bounds[level + 1]][into]] = True
    return passed & ~is_root
