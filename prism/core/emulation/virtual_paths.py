"""The longest paths to the virtual posts of touching ops, each post's from a few roots.

Theory of operation. A *root* is a point from which time is measured: the origin, the end of a touching op, or a relay.
Level by level each point gets the longest path from each root, none of them through another root: those of the points
before it, made longer, without those that are dominated. Where hosts compute long after a post none are, and a path
would come from every op that was ever awaited. So where more than `LIMIT` paths meet, the point becomes a *relay*: what
comes after it is measured from it. That keeps the paths as many as the points, whatever is dominated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prism.core.emulation.dominance import Guarantees
from prism.core.emulation.growing import Growing
from prism.core.emulation.paths import Paths, firsts
from prism.core.emulation.virtual_points import VirtualPoints
from prism.core.graph import Int64
from prism.core.levels import ranges

LIMIT = 16
"""More relays take an assistant longer when an op ends; more paths to each point take longer to be summed up."""


class VirtualPaths(NamedTuple):
    """The paths; each point has one at least."""

    to_posts: Paths  # where `point` is the number of a virtual post, op by op in the order of Touching.virtual
    to_roots: Paths  # to the relays, and to the ends: the longest to any of an op's virtual posts
    relays: Int64  # the points that are relays, ascending


def longest_paths(points: VirtualPoints) -> VirtualPaths:
    """All paths that can be the longest."""
    sweep = _Sweep(points)
    for level, edges in points.levels():
        sweep.reach(level, edges)
    return sweep.paths()


class _Held:
    """The paths to each of a number of points, told in any order."""

    def __init__(self, points: int) -> None:
        self._first = np.zeros(points, np.int64)
        self._count = np.zeros(points, np.int64)
        self._root = Growing()
        self._ns = Growing()

    def hold(self, paths: Paths) -> None:
        """Paths sorted by point, all that there are to those points."""
        starts = firsts(paths.point)
        points = paths.point[starts]
        self._first[points] = len(self._root) + starts
        self._count[points] = np.append(starts[1:], len(paths.point)) - starts
        self._root.append(paths.root)
        self._ns.append(paths.ns)

    def made_longer(self, points: Int64, target: Int64, weight: Int64) -> Paths:
        """The paths to these points that go on to a target each, by a weight."""
        first, count = self._first[points], self._count[points]
        rows = ranges(first, first + count)
        ns = self._ns.values[rows] + np.repeat(weight, count)
        return Paths(np.repeat(target, count), self._root.values[rows], ns)


class _Sweep:
    """How far the paths have been found, level by level."""

    def __init__(self, points: VirtualPoints) -> None:
        self._points = points
        self._guarantees = Guarantees(points.prev, points.cost)
        self._to_roots: list[Paths] = []
        self._held = _Held(len(points))
        origin = np.zeros(1, np.int64)
        self._held.hold(Paths(origin, origin, origin))

    def reach(self, level: slice, edges: slice) -> None:
        points = self._points
        into = np.diff(points.edge_ptr[level.start : level.stop + 1])
        target = np.repeat(np.arange(level.start, level.stop), into)
        found = self._held.made_longer(points.source[edges], target, points.weight[edges]).longest(len(points))
        found = found.where(self._guarantees.undominated(found))
        count = np.bincount(found.point - level.start, minlength=len(into))
        is_root = (points.prev[level] >= 0) | (count > LIMIT)
        if is_root.any():
            to_root = is_root[found.point - level.start]
            self._measure_from(level.start + np.flatnonzero(is_root), found.where(to_root))
            found = found.where(~to_root)
        self._held.hold(found)

    def paths(self) -> VirtualPaths:
        points, edges = self._points, self._points.posts()
        to_posts = self._held.made_longer(points.source[edges], np.arange(len(edges)), points.weight[edges])
        to_roots = Paths.joined(self._to_roots)
        roots = to_roots.point[firsts(to_roots.point)]
        return VirtualPaths(to_posts, to_roots, roots[points.prev[roots] < 0])

    def _measure_from(self, roots: Int64, to_roots: Paths) -> None:
        self._held.hold(Paths(roots, roots, np.zeros_like(roots)))
        self._to_roots.append(to_roots)
        self._guarantees.tell(roots, to_roots)
