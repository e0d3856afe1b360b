"""Phases: which messages take turns in an iteration of a pipeline, and so are repeated together.

Where all micro-batches go forward before one comes back (GPipe), forward and backward are two phases of each rank, and
each repeats its own piece. Where they take turns (1F1B), they are one phase. A rank that has no more micro-batches than
it may be ahead shows no turns: the ranks that it exchanges messages with do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prism.core.graph import Int64
from prism.core.what_if.periods import Period, Walk
from prism.core.what_if.steps import Steps

Phase = tuple[int, ...]
"""Series of an iteration that are repeated together, by their numbers in its pattern."""


class Iteration(NamedTuple):
    """The steps of one iteration of a lane, without its mark."""

    lane: int
    number: int
    start: int
    end: int


@dataclass(frozen=True, eq=False, slots=True)
class Pattern:
    """What an iteration does, whoever does it: series and codes are numbered as they appear."""

    walk: Walk
    first: Int64  # series: its first part
    counts: Int64  # series
    posts: npt.NDArray[np.bool_]  # series: whether it posts messages
    waits: npt.NDArray[np.bool_]  # series: whether it waits for messages

    def held(self, period: Period) -> Int64:
        """How many parts of each series one piece of a period has, int64[series]."""
        inside = (self.walk.step >= period.start) & (self.walk.step < period.start + period.length)
        return np.bincount(self.walk.series[inside], minlength=len(self.first))

    def overlapping(self, series: Int64) -> list[Phase]:
        """These series in sets whose members begin before the others of the set have ended."""
        begins, ends = self.walk.step[self.first], np.zeros_like(self.first)
        ends[self.walk.series] = self.walk.step
        sets: list[Phase] = []
        end = -1
        for row in series.tolist():
            if begins[row] < end:
                sets[-1] = (*sets[-1], row)
            else:
                sets.append((row,))
            end = max(end, int(ends[row]))
        return sets


class Phases(NamedTuple):
    """The phases of an iteration of a lane."""

    iteration: Iteration
    pattern: Pattern
    phases: tuple[Phase, ...]


def find_phases(steps: Steps, iterations: Sequence[Iteration], micro_batches: int) -> list[Phases]:
    """The phases of all iterations that have some, of messages that are posted so many times, or a multiple of it."""
    seen = []
    for iteration, pattern in zip(iterations, _patterns(steps, iterations), strict=True):
        counted = pattern.posts & (pattern.counts % micro_batches == 0)
        message = steps.message[steps.ptr[iteration.start] + pattern.first]
        seen.append((iteration, pattern, message, pattern.overlapping(np.flatnonzero(counted))))
    together = _joined(message[list(phase)].tolist() for _, _, message, phases in seen for phase in phases)
    found = []
    for iteration, pattern, message, phases in seen:
        merged: dict[int, Phase] = {}
        for phase in phases:
            key = together[int(message[phase[0]])]
            merged[key] = merged.get(key, ()) + phase
        if merged:
            found.append(Phases(iteration, pattern, tuple(merged.values())))
    return found


def _joined(sets: Iterable[Sequence[int]]) -> dict[int, int]:
    """For each member of these sets the one that stands for all that sets with common members hold (union-find)."""
    parent: dict[int, int] = {}

    def root(member: int) -> int:
        while parent[member] != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    for members in sets:
        for member in members:
            parent.setdefault(member, member)
            parent[root(member)] = root(members[0])
    return {member: root(member) for member in parent}


def _patterns(steps: Steps, iterations: Iterable[Iteration]) -> Iterator[Pattern]:
    """The pattern of each iteration; equal ones are one object."""
    known: dict[tuple[int, int, bytes], Pattern] = {}
    for _, _, start, end in iterations:
        parts = slice(steps.ptr[start], steps.ptr[end])
        series, first, counts = _by_appearance(steps.series[parts])
        codes, _, _ = _by_appearance(steps.code[start:end])
        step = np.repeat(np.arange(end - start), np.diff(steps.ptr[start : end + 1]))
        posts = steps.message[parts][first] >= 0
        waits = steps.about_messages[parts][first] & ~posts
        key = (len(codes), len(series), np.concatenate((codes, step, series, posts, waits)).tobytes())
        if key not in known:
            known[key] = Pattern(Walk(codes, step, series), first, counts, posts, waits)
        yield known[key]


def _by_appearance(values: Int64) -> tuple[Int64, Int64, Int64]:
    """The values numbered as they appear; of each number its first place, and how often it comes."""
    _, first, inverse, counts = np.unique(values, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    numbers = np.empty_like(order)
    numbers[order] = np.arange(len(order))
    return numbers[inverse], first[order], counts[order]
