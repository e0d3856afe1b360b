"""Orbits: all the groups of the full world that moving a group takes it to, in the one order of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from prism.core.folding.seats import NotFoldable, Seats, seats
from prism.core.folding.shape import Folding, Shift
from prism.core.graph import Group, Int64
from prism.core.levels import pointers
from prism.core.stage.building import group_key
from prism.core.stage.op import CommGroup

Names = Mapping[tuple[int, ...], Sequence[str]]
"""Ranks -> the names of the groups of them, in the order in which they were made."""


@dataclass(frozen=True, slots=True)
class Orbits:
    """The groups of the full world, and which of them came of each group of the ranks that run."""

    groups: tuple[Group, ...]
    seats: tuple[Seats | None, ...]  # of each group of those that run; None: nobody uses it, and it is left out
    steps: Int64  # int64[groups of those that run, folded dimensions]
    index_ptr: Int64  # of the groups of those that run, one more
    index: Int64  # the group whose coordinates are c, in the mixed radix of `steps`, is index[index_ptr[g] + c]


def orbits(folding: Folding, groups: Sequence[CommGroup], names: Names) -> Orbits:
    """The orbits of the groups of those that run; one that does not fit has no ops, and is left out."""
    taken: dict[tuple[int, ...], int] = {}
    made: list[CommGroup] = []
    found: list[Seats | None] = []
    counts: list[int] = []
    for group in groups:
        turn = taken[group.ranks] = taken.get(group.ranks, -1) + 1
        of = _seats(folding, group)
        copies = (
            [] if of is None else [_moved(folding, group, to, names, turn) for to in product(*map(range, of.steps))]
        )
        made += copies
        found.append(of)
        counts.append(len(copies))
    order = sorted(range(len(made)), key=lambda row: group_key(made[row]))
    index = np.empty(len(made), np.int64)
    index[order] = np.arange(len(made))
    steps = [folding.extents if of is None else of.steps for of in found]
    return Orbits(
        groups=tuple(Group(made[row].name, made[row].ranks, made[row].backend) for row in order),
        seats=tuple(found),
        steps=np.array(steps, np.int64).reshape(len(found), len(folding.extents)),
        index_ptr=pointers(np.array(counts, np.int64)),
        index=index,
    )


def _seats(folding: Folding, group: CommGroup) -> Seats | None:
    try:
        return seats(folding, group.name, group.ranks)
    except NotFoldable:
        return None


def _moved(folding: Folding, group: CommGroup, to: Shift, names: Names, turn: int) -> CommGroup:
    """The group at these coordinates: as it was named there, the turn-th of its ranks, or after the coordinates."""
    if not any(to):
        return group
    apart = sum(at * stride for at, stride in zip(to, folding.strides, strict=True))
    ranks = tuple(rank + apart for rank in group.ranks)
    told = names.get(ranks, ())
    place = ",".join(f"{name}={at}" for name, at in zip(folding.dimensions, to, strict=True) if at)
    name = told[turn] if turn < len(told) else f"{group.name}[{place}]"
    return CommGroup(group.index, name, ranks, group.backend, group.generation)
