"""The seats of a group in a folded world: which of its members run, and who plays the part of each other one.

A group fits if it has, with each member, the representative of it, and reaches equally far along the folded dimensions
from all of its representatives: not at all, all the way, or in even steps. Then moving the group by a shift gives the
group itself or one that has no member in common with it, and what a rank does in one of them tells what the ranks that
it stands for do in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from prism.core.folding.shape import Folding, Shift
from prism.core.graph import Int64

SHOWN = 8
"""Ranks of a group that an error lists."""


class NotFoldable(ValueError):
    """What a program does does not fit the dimensions that are said to be folded; the text says why."""


@dataclass(frozen=True)
class Seats:
    """The members of one group, by group rank; `steps` apart are those along each folded dimension that are in it."""

    folding: Folding
    ranks: tuple[int, ...]
    steps: Shift  # its extent: the group lies at one coordinate; 1: it spans the dimension

    @cached_property
    def seat(self) -> dict[int, int]:
        """The group rank of each member."""
        return {rank: seat for seat, rank in enumerate(self.ranks)}

    @cached_property
    def player(self) -> tuple[int, ...]:
        """For each member the group rank of its representative."""
        return tuple(self.seat[self.folding.representative(rank)] for rank in self.ranks)

    @cached_property
    def present(self) -> tuple[int, ...]:
        """The group ranks of those that run, ascending."""
        return tuple(seat for seat, player in enumerate(self.player) if seat == player)

    @property
    def copies(self) -> int:
        """How many groups there are like this one, itself included."""
        return prod(self.steps)

    def seen_from(self, member: int, other: int) -> int:
        """The group rank that lies from a member's representative as `other` lies from the member."""
        if member == self.player[member]:
            return other
        back = tuple(-at for at in self.folding.shift(self.ranks[member]))
        return self.seat[self.folding.moved(self.ranks[other], back)]

    @cached_property
    def across(self) -> Int64:
        """The same for all pairs, int64[members, members]."""
        ranks = np.array(self.ranks, np.int64)
        at, folding = self.folding.coordinates(ranks), self.folding
        apart = (at[None, :, :] - at[:, None, :]) % np.array(folding.extents, np.int64)
        return self.places(ranks - folding.offset(at) + folding.offset(apart))

    def places(self, ranks: Int64) -> Int64:
        """The group ranks of members."""
        members = np.array(self.ranks, np.int64)
        order = np.argsort(members)
        found: Int64 = order[np.searchsorted(members[order], ranks)]
        return found


def seats(folding: Folding, name: str, ranks: Sequence[int]) -> Seats:
    """The seats of a group with a member that runs; raises NotFoldable naming it if it does not fit."""
    members = np.array(ranks, np.int64)
    coordinates = folding.coordinates(members)
    bases = np.unique(members - folding.offset(coordinates))
    steps = []
    for dimension, extent, at in zip(folding.dimensions, folding.extents, coordinates.T, strict=True):
        places = np.unique(at)
        step = extent // places.size
        if not np.array_equal(places, np.arange(0, step * places.size, step)) or extent % places.size:
            raise NotFoldable(
                f"{named(name, ranks)} takes a part of {dimension}, whose extent is {extent}: a group has to lie at "
                "one coordinate of a folded dimension or span it; divide the mesh so that each does"
            )
        steps.append(step)
    if bases.size * prod(e // s for e, s in zip(folding.extents, steps, strict=True)) != members.size:
        raise NotFoldable(
            f"{named(name, ranks)} does not reach equally far along {', '.join(folding.dimensions)} from each of its "
            "members: the ranks along a folded dimension do not all do the same"
        )
    return Seats(folding, tuple(ranks), tuple(steps))


def named(name: str, ranks: Sequence[int]) -> str:
    """The group and its first ranks, for an error."""
    told = ", ".join(map(str, ranks[:SHOWN])) + (", ..." if len(ranks) > SHOWN else "")
    return f"group {name!r} (ranks {told})"
