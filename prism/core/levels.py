"""Topological levels of a directed graph, found by sweeping a frontier over all of its points at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.graph import Int64


class Cycle(ValueError):
    """The graph has no topological order; `points` is one cycle, each point a predecessor of the next."""

    def __init__(self, points: list[int]) -> None:
        super().__init__(f"cycle through the points {points}")
        self.points = points


@dataclass(frozen=True, slots=True)
class Levels:
    """Points by level: every edge leads from a lower level to a higher one."""

    order: Int64  # the points, level by level, ascending within a level
    bounds: Int64  # levels + 1: level k is order[bounds[k]:bounds[k + 1]]


def topological_levels(count: int, source: Int64, target: Int64) -> Levels:
    """Level the points 0..count-1 of the edges source[i] -> target[i]; raises Cycle."""
    heads = target[np.argsort(source, kind="stable")]
    ptr = pointers(np.bincount(source, minlength=count))
    missing = np.bincount(target, minlength=count)
    frontier = np.flatnonzero(missing == 0)
    levels = [frontier]
    while frontier.size:
        reached = heads[ranges(ptr[frontier], ptr[frontier + 1])]
        np.subtract.at(missing, reached, 1)
        frontier = np.unique(reached[missing[reached] == 0])
        levels.append(frontier)
    if missing.any():
        raise Cycle(_find_cycle(source, target, missing > 0))
    return Levels(np.concatenate(levels), pointers(np.array([level.size for level in levels[:-1]], np.int64)))


def pointers(lengths: Int64) -> Int64:
    """The CSR pointers of rows with these lengths, int64[rows + 1]."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def ranges(first: Int64, last: Int64) -> Int64:
    """The ranges first[i]..last[i]-1, one after the other."""
    lengths = last - first
    ends = np.cumsum(lengths)
    return np.repeat(first - ends + lengths, lengths) + np.arange(lengths.sum())


def _find_cycle(source: Int64, target: Int64, blocked: npt.NDArray[np.bool_]) -> list[int]:
    # A point that was never reached has a predecessor that was never reached, so walking back must meet itself.
    before = np.full(blocked.size, -1)
    inner = blocked[source]
    before[target[inner]] = source[inner]
    seen: dict[int, int] = {}
    walk: list[int] = []
    point = int(np.flatnonzero(blocked)[0])
    while point not in seen:
        seen[point] = len(walk)
        walk.append(point)
        point = int(before[point])
    return walk[seen[point] :][::-1]
