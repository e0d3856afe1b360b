"""Periods: the part of a sequence of steps that comes again and again.

What is looked for holds a share of the series that the steps have parts in: so much of this one to so much of that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prism.core.graph import Int64

ANY = -1
"""The share of a series of which there may be any number."""


@dataclass(frozen=True, eq=False, slots=True)
class Walk:
    """Steps one after the other; those with equal codes do the same."""

    codes: Int64  # steps
    step: Int64  # parts: the step that each belongs to, in order
    series: Int64  # parts

    def held(self, count: int) -> Int64:
        """How many parts of each of `count` series come before each step: int64[steps + 1, count]."""
        marks = np.zeros((len(self.codes) + 1, count), np.int64)
        np.add.at(marks, (self.step + 1, self.series), 1)
        return np.cumsum(marks, axis=0)


class Period(NamedTuple):
    """Equal pieces of `length` steps each, `times` of them from step `start` on, and how many more there shall be."""

    start: int
    length: int
    times: int
    more: int


def longest_period(walk: Walk, share: Int64, more: int) -> Period | None:
    """The piece that goes on longest, to come so much more often that there are `more` shares more (below 0: fewer).

    share: int64[series], each a count or ANY. None if no piece of whole shares comes twice in a row.
    """
    held = walk.held(len(share))
    counted, shared = np.flatnonzero(share != ANY), np.flatnonzero(share > 0)
    best, best_rank = None, (0, 0)
    for length, wanted, times_more in _candidates(walk, share, more):
        start, end = _runs(walk.codes, length)
        fits = ((held[start + length] - held[start])[:, counted] == wanted[counted]).all(axis=1)
        start, end = start[fits], end[fits]
        goes_on = (held[end] - held[start + length])[:, shared].sum(axis=1)
        if goes_on.size and (rank := (int(goes_on.max()), length)) > best_rank:
            run = int(goes_on.argmax())
            # What is computed before the run's first step may be something else: it comes after another step.
            times = int(end[run] - start[run] - 1) // length
            best, best_rank = Period(int(start[run]) + 1, length, times, times_more), rank
    return best


def _candidates(walk: Walk, share: Int64, more: int) -> Iterator[tuple[int, Int64, int]]:
    """The lengths that a piece may have, what it then holds of each series, and how many more of it are wanted."""
    shared = np.flatnonzero(share > 0)
    lead = int(shared[np.argmin(share[shared])])
    at, whole = walk.step[walk.series == lead], int(share[lead])
    for count in range(1, len(at)):
        if (more * whole) % count == 0 and not (share[shared] * count % whole).any():
            wanted = share * count // whole
            for length in np.unique(at[count:] - at[:-count]).tolist():
                yield length, wanted, more * whole // count


def _runs(codes: Int64, length: int) -> tuple[Int64, Int64]:
    """Where each piece of this length is gone through at least twice in a row, and where that ends."""
    again = np.concatenate(([False], codes[length:] == codes[:-length], [False]))
    edges = np.flatnonzero(again[1:] != again[:-1])
    start, end = edges[::2], edges[1::2] + length
    twice = end - start >= 2 * length
    return start[twice], end[twice]
