"""Messages whose other side is not there yet, kept so that it is found without looking at those of other ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from heapq import merge
from typing import NamedTuple

from prism.core.stage.op import Post

ANY = -1
"""Instead of a member: whoever sends."""


class Side(NamedTuple):
    """One side of a message: who posted it and towards whom, as group ranks; the oldest has the lowest number."""

    number: int
    member: int
    toward: int
    post: Post


class Unmatched:
    """The sides that wait for another one, of all groups."""

    def __init__(self) -> None:
        self._count = 0
        # (group, whether it sends, towards whom) -> by whom -> in the order in which they were posted
        self._sides: dict[tuple[int, bool, int], dict[int, list[Side]]] = defaultdict(dict)

    def put(self, group: int, member: int, toward: int, post: Post) -> None:
        """A member has posted a side, towards another one or ANY."""
        self._count += 1
        side = Side(self._count, member, toward, post)
        self._sides[group, post.call.sends, toward].setdefault(member, []).append(side)

    def facing(self, group: int, member: int, toward: int, sends: bool) -> Iterable[Side]:
        """The sides that one of this member, towards another one or ANY, may meet, the oldest first."""
        to_it = self._sides[group, not sends, member]
        if toward == ANY:
            return merge(*to_it.values())
        return merge(to_it.get(toward, ()), self._sides[group, not sends, ANY].get(toward, ()))

    def take(self, group: int, side: Side) -> None:
        """The side has met its other one."""
        by_member = self._sides[group, side.post.call.sends, side.toward]
        by_member[side.member].remove(side)
        if not by_member[side.member]:
            del by_member[side.member]
