"""Host memory that is full: who goes on from there to disk, and when a rank that could not leave tries again.

What a rank hears of host memory is of the past: others may have left their parts of it since, or be about to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prism.core.events import PagedOut
from prism.core.stage.residency import Place, Residency

LEAST = ": it holds the copies of ranks that come, as many as there are devices.slots, and of one that leaves"
ELSE = ", or set devices.spill to a folder on a disk"


class Crowding:
    """Of all ranks, whatever their devices; `spills`: whether copies may go on to disk."""

    def __init__(self, residency: Residency, spills: bool) -> None:
        self.waiting: int | None = None  # a rank that is not told to leave until another has moved
        self._residency = residency
        self._spills = spills
        self._put_off: list[int] = []  # ranks that leave once another has come, and has left its part
        self._left = 0  # how often a rank has left its part
        self._left_at: dict[int, int] = {}  # the same when a rank was told to leave the device

    def leaves(self, rank: int) -> None:
        """The rank is told to leave the device."""
        self._left_at[rank] = self._left

    def relieved(self) -> None:
        """A rank has left its part of host memory."""
        self._left += 1

    def come(self) -> list[int]:
        """A rank has come, so that these may leave."""
        put_off, self._put_off = self._put_off, []
        return put_off

    def refused(self, event: PagedOut, turns: Callable[[int], Any]) -> tuple[int | None, str]:
        """A rank could not go where it was sent: who goes on to disk for it, if anybody does, and why the run ends.

        `turns`: how far away the turn of a rank is; the farthest goes. Without a disk, the rank that could not leave
        tries again once another has come. Where there is more room by now, it is for the pager to send whom it likes.
        """
        if not event.full:
            return None, event.error
        if self._left > self._left_at.get(event.rank, self._left):
            return None, ""
        there = self._residency.at(Place.HOST)
        if there and self._spills:
            self.waiting = event.rank
            return max(there, key=turns), ""
        if any(rank not in self._residency.asking for rank in self._residency.at(Place.COMING)):
            self._put_off.append(event.rank)
            return None, ""
        if self._spills and self._residency.at(Place.LEAVING, Place.SPILLING):
            self.waiting = event.rank
            return None, ""
        return None, f"{event.error}; raise devices.host_memory{LEAST if self._spills else ELSE}"
