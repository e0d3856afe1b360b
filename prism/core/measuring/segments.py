"""What is told of a rank that was timed: how long its segments took, and what is known of its host beside them."""

from __future__ import annotations

import msgspec

WAITED = -1
"""In place of what a host needs for a segment: it waited for its device in it."""
FREE = -2
"""The same where nobody held the host ahead of its device."""
AFTER = -3
"""The same in an iteration that is disturbed by one before, in which it was held: it does not count."""


class Segments(msgspec.Struct, array_like=True, frozen=True):
    """The segments before the steps of a rank's record, `durations` in ns.

    `hosts`: of those that were timed with the host held ahead of its device, the number and what the host needs for
    them, ns or WAITED; or AFTER.
    """

    durations: list[int]
    hosts: list[tuple[int, int]] = []
