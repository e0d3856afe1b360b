"""Steady state: the pieces of an iteration that are gone through once for each micro-batch, or for a few."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from prism.core.graph import Int64
from prism.core.what_if.periods import ANY, Period, longest_period
from prism.core.what_if.phases import Pattern, Phase


def steady_periods(pattern: Pattern, phases: Collection[Phase], before: int, after: int) -> list[Period]:
    """What an iteration repeats with its micro-batches, `before` of them, to come for `after`; earliest first.

    Each phase has a period. Waits that are in none, such as for all sends at the end, have periods of their own. Raises
    ValueError where there is none, or too few to be left out.
    """
    for phase in phases:
        _refuse_like_messages(pattern, phase, before)
    found = [_period(pattern, phase, before, after) for phase in phases]
    waits = np.flatnonzero(_out_of_step(pattern, found, before, after))
    found += [_period(pattern, series, before, after) for series in pattern.overlapping(waits)]
    if _out_of_step(pattern, found, before, after).any():
        raise ValueError("it waits for some of its messages, but not in step with the micro-batches")
    found.sort()
    if any(one.start + one.length * one.times > other.start for one, other in pairwise(found)):
        raise ValueError("two parts of it that repeat with the micro-batches overlap")
    return found


def _period(pattern: Pattern, series: tuple[int, ...], before: int, after: int) -> Period:
    """The period of a few series, which holds as much of each as a micro-batch has, and no other posted message."""
    share = np.where(pattern.posts, 0, ANY)
    share[list(series)] = _each(pattern.counts[list(series)], before)
    period = longest_period(pattern.walk, share, after - before)
    if period is None:
        raise ValueError(
            f"its messages come {before} times, or a multiple, but no part of it that has all of them comes twice in a "
            "row; capture more micro-batches than the pipeline has stages"
        )
    if period.times + period.more < 0:
        least = before - (before - after) * period.times // -period.more
        raise ValueError(f"what repeats can be left out {period.times} times, choose at least {least} micro-batches")
    return period


def _out_of_step(pattern: Pattern, periods: Iterable[Period], before: int, after: int) -> npt.NDArray[np.bool_]:
    """Which series of waits do not come as often as they should once these periods are repeated, bool[series]."""
    due = _each(pattern.counts, before) * (after - before)
    for period in periods:
        due -= period.more * pattern.held(period)
    out: npt.NDArray[np.bool_] = pattern.waits & (due != 0)
    return out


def _each(counts: Int64, micro_batches: int) -> Int64:
    """How many each micro-batch has of so many, of which a few more or less may be at the begin and the end."""
    return (counts + micro_batches // 2) // micro_batches


def _refuse_like_messages(pattern: Pattern, phase: Phase, micro_batches: int) -> None:
    """Like messages of a micro-batch must be posted together: else they are of several passes, and not told apart."""
    posts = pattern.walk.series[np.isin(pattern.walk.series, phase)]
    bounds = np.flatnonzero(np.diff(posts, prepend=-1, append=-1))
    each = pattern.counts[posts[bounds[:-1]]] // micro_batches
    wrong = np.flatnonzero(np.diff(bounds) % each)
    if wrong.size:
        raise ValueError(
            f"each of {micro_batches} micro-batches would have {each[wrong[0]]} like messages on one channel, but they "
            "come one by one; give the number that the program has (interleaved stages are not told apart)"
        )
