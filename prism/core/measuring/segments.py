"""What is told of a rank that was timed: how long its segments took, and what is known of its host beside them."""

from __future__ import annotations

import enum

import msgspec

FIRST = 6
EVERY = 4


class Host(enum.IntEnum):
    """How the host was in a segment: as it comes, held ahead of its device, or that, and it waited for the device."""

    FREE = 0
    AHEAD = 1
    WAITED = 2


class Segments(msgspec.Struct, array_like=True, frozen=True):
    """The segments before the steps of a rank's record, `durations` in ns.

    `waited`: those in which the host waited for its device, by number, of iterations in which it was held ahead of it;
    None where there were no such iterations.
    """

    durations: list[int]
    waited: list[int] | None = None


def is_ahead(iteration: int) -> bool:
    """Whether the host of a rank on a GPU is held ahead of its device in an iteration; the first is number 0.

    Few are, as they do not say how long an iteration takes; and none of the first, for programs that are short.
    """
    return iteration >= FIRST and (iteration - FIRST) % EVERY == 0
