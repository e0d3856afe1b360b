"""The longest paths among virtual ranks, from touching ops to the virtual posts of touching ops.

Theory of operation. Of the points of a replay plan only those count from which such a post can be reached through
virtual lanes and ops that do not touch. Paths begin at *roots*, the ends of touching ops and the origin, and go through
no other root. Root by root, the length of the longest path to every point is a replay of its own, in which nothing else
happens; many roots are done at once, side by side. Most roots reach little, as the next op of their group is another
root: so roots are done together with those that reach about as many posts, and over the points that they reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.emulation.touching import Touching
from prism.core.graph import Graph, Int64, InvalidGraph
from prism.core.levels import pointers, ranges
from prism.core.timeline.replay import ORIGIN, Plan

NONE = -(2**62)
"""There is no path. Sums of it with times stay below `ANY`."""
ANY = NONE // 2
"""What is above is a time."""

BITS = 64
BLOCK_BYTES = 1 << 28
"""Of the lengths that are held at one time; smaller blocks than `LEAST_ROOTS` waste the cache lines they touch."""
LEAST_ROOTS = 8

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Dag:
    """Points in topological levels. The first `roots` points have no edges into them, all others have some."""

    roots: int
    source: Int64  # edges, sorted by target: the point they come from
    weight: Int64  # edges: ns
    edge_ptr: Int64  # the edges into point roots + i are edge_ptr[i]:edge_ptr[i + 1]
    bounds: Int64  # level k is the points roots + bounds[k] to roots + bounds[k + 1]

    def __len__(self) -> int:
        return self.roots + len(self.edge_ptr) - 1

    def reach(self, chosen: Int64) -> npt.NDArray[np.uint64]:
        """Which of up to 64 roots reach each point: uint64[points], a bit for each root."""
        reached = np.zeros(len(self), np.uint64)
        reached[chosen] = np.left_shift(np.uint64(1), np.arange(len(chosen), dtype=np.uint64))
        for points, edges, starts in self._levels():
            np.bitwise_or.reduceat(reached[self.source[edges]], starts, out=reached[points])
        return reached

    def distances(self, chosen: Int64) -> Int64:
        """The longest path from each of these roots to each point: int64[points, chosen] ns, or below ANY."""
        longest = np.full((len(self), len(chosen)), NONE)
        longest[chosen, np.arange(len(chosen))] = 0
        for points, edges, starts in self._levels():
            lengths = longest[self.source[edges]]
            lengths += self.weight[edges, None]
            np.maximum.reduceat(lengths, starts, axis=0, out=longest[points])
        return longest

    def only(self, kept: Mask) -> tuple[Dag, Int64]:
        """The part of these points and of all roots, and the number of each point in it."""
        kept = kept.copy()
        kept[: self.roots] = True
        number = np.cumsum(kept) - 1
        count = np.diff(self.edge_ptr)
        edges = np.flatnonzero(np.repeat(kept[self.roots :], count) & kept[self.source])
        before = np.searchsorted(edges, self.edge_ptr)
        rows = np.flatnonzero(kept[self.roots :])
        bounds = np.unique(np.searchsorted(rows, self.bounds))
        ptr = np.append(before[:-1][rows], before[-1])
        return Dag(self.roots, number[self.source[edges]], self.weight[edges], ptr, bounds), number

    def _levels(self) -> Iterator[tuple[slice, slice, Int64]]:
        """Of each level: its points, the edges into them, and where those of each point start."""
        for first, last in zip(self.bounds[:-1], self.bounds[1:], strict=True):
            edges = slice(self.edge_ptr[first], self.edge_ptr[last])
            yield slice(self.roots + first, self.roots + last), edges, self.edge_ptr[first:last] - edges.start


@dataclass(frozen=True, slots=True)
class Lengths:
    """Longest paths, a row each: the virtual post they lead to, the root they come from, and their ns."""

    post: Int64
    root: Int64
    ns: Int64


@dataclass(frozen=True, slots=True)
class VirtualPaths:
    """The paths; root 0 is the origin, root 1 + k the end of touching op k."""

    dag: Dag
    post_ptr: Int64  # touching ops + 1: the rows of the virtual posts of each, arc by arc
    post_point: Int64  # virtual posts: the point that their time counts from
    post_after: Int64  # virtual posts: by how much they come after it, ns

    def lengths(self) -> Lengths:
        """All longest paths."""
        parts = [self._from(block) for block in self._blocks()]
        return Lengths(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _blocks(self) -> Iterator[Int64]:
        """The roots that reach any post, those together that reach about as many; at least one block."""
        size = max(LEAST_ROOTS, min(BITS, BLOCK_BYTES // (8 * len(self.dag))))
        roots = np.arange(self.dag.roots)
        posts = np.concatenate([self._posts_reached(roots[at : at + BITS]) for at in range(0, len(roots), BITS)])
        order = roots[np.argsort(-posts, kind="stable")][: np.count_nonzero(posts)]
        yield from (order[at : at + size] for at in range(0, len(order) or 1, size))

    def _posts_reached(self, roots: Int64) -> Int64:
        bits = self.dag.reach(roots)[self.post_point]
        return np.array([np.count_nonzero(bits & np.uint64(1 << bit)) for bit in range(len(roots))])

    def _from(self, roots: Int64) -> tuple[Int64, Int64, Int64]:
        reached = self.dag.reach(roots) != 0
        part, number = self.dag.only(reached)
        posts = np.flatnonzero(reached[self.post_point])
        ns = part.distances(roots)[number[self.post_point[posts]]] + self.post_after[posts, None]
        row, column = np.nonzero(ns > ANY)
        return posts[row], roots[column], ns[row, column]


def find_paths(graph: Graph, plan: Plan, touching: Touching, durations: Int64, costs: Int64) -> VirtualPaths:
    """The paths of a planned graph; durations: int64[nodes] ns, costs: int64[ops] ns.

    Raises InvalidGraph if a virtual lane waits for an event of a sandbox rank: only ops may join the two.
    """
    done = np.concatenate(([0], np.cumsum(durations, dtype=np.int64)))
    op = np.repeat(np.arange(len(touching.op)), np.diff(touching.member_ptr))
    vop = np.repeat(op, touching.arc)
    place = ranges(touching.member + 1, touching.member + 1 + touching.arc) % touching.size[vop]
    node = graph.posts[graph.post_ptr[touching.op[vop]] + place]
    real = np.zeros(len(plan.edge_ptr) - 1, np.bool_)
    real[plan.home[np.isin(graph.node_rank(), touching.sandbox)]] = True
    roots = np.concatenate(([ORIGIN], plan.op_point[touching.op]))
    passed = _between(plan, roots, plan.home[node])
    if (passed & real).any():
        raise InvalidGraph("a virtual rank waits for an event of a sandbox rank; put both in the sandbox, or neither")
    dag, number = _dag(plan, roots, passed, done, costs)
    post_ptr = pointers(np.bincount(vop, minlength=len(touching.op)))
    return VirtualPaths(dag, post_ptr, number[plan.home[node]], done[node])


def _between(plan: Plan, roots: Int64, ends: Int64) -> Mask:
    """The points, but for roots, from which these ends are reached without passing a root."""
    passed = np.zeros(len(plan.edge_ptr) - 1, np.bool_)
    passed[ends] = True
    is_root = np.zeros_like(passed)
    is_root[roots] = True
    edge_bounds = plan.edge_ptr[plan.bounds]
    for level in range(len(plan.bounds) - 2, 0, -1):
        points = slice(plan.bounds[level], plan.bounds[level + 1])
        passed[points] &= ~is_root[points]
        into = np.repeat(passed[points], np.diff(plan.edge_ptr[points.start : points.stop + 1]))
        passed[plan.source[edge_bounds[level] : edge_bounds[level + 1]][into]] = True
    passed[roots] = False
    return passed


def _dag(plan: Plan, roots: Int64, passed: Mask, done: Int64, costs: Int64) -> tuple[Dag, Int64]:
    """These points behind the roots, and the number of each point of the plan among them."""
    points = np.flatnonzero(passed)
    number = np.full(len(passed), -1)
    number[roots] = np.arange(len(roots))
    number[points] = len(roots) + np.arange(len(points))
    count = np.diff(plan.edge_ptr)[points]
    edges = ranges(plan.edge_ptr[points], plan.edge_ptr[points + 1])
    source = number[plan.source[edges]]
    # The cost of a touching op is in its end.
    cost = np.where(source < len(roots), 0, np.append(0, costs)[plan.cost[edges]])
    weight = done[plan.gain[edges]] - done[plan.loss[edges]] + cost
    bounds = np.unique(np.searchsorted(points, plan.bounds))
    return Dag(len(roots), source, weight, pointers(count), bounds), number
