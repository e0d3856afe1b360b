"""The process groups of a job whose mesh gets longer along one dimension: copied, or stretched with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.graph import Group, Int64
from prism.core.levels import pointers, ranges
from prism.core.what_if.mesh import NotExpandable, Stretch

SHOWN = 8
"""Ranks of a group that an error lists."""


@dataclass(frozen=True, slots=True)
class StretchedGroups:
    """The new groups in canonical order, and what became of each old one."""

    groups: tuple[Group, ...]
    spans: npt.NDArray[np.bool_]  # old groups: stretched, so that one new group came of it
    coordinate: Int64  # old groups: of the first member; a copied group's members share it
    index_ptr: Int64  # old groups + 1
    index: Int64  # copy k of old group g is the new group index[index_ptr[g] + k]
    member_ptr: Int64  # old groups + 1
    member: Int64  # by group rank in (any copy of) the new group: which member of the old one it behaves as
    copy: Int64  # and which copy of that member it is, in copy 0 of the group


def stretched_groups(groups: Sequence[Group], used: Collection[int], along: Stretch) -> StretchedGroups:
    """Copy or stretch each group; `used` are those that have ops.

    Raises NotExpandable where one takes a part of the dimension or is out of order; if it has no ops, it is left out.
    """
    parts = [_stretched(group, along, row in used) for row, group in enumerate(groups)]
    made = [group for part in parts for group in part.groups]
    order = sorted(range(len(made)), key=lambda row: (len(made[row].name), made[row].name, made[row].ranks))
    index = np.empty(len(made), np.int64)
    index[order] = np.arange(len(made))
    return StretchedGroups(
        groups=tuple(made[row] for row in order),
        spans=np.array([part.spans for part in parts], np.bool_),
        coordinate=np.array([part.coordinate for part in parts], np.int64),
        index_ptr=pointers(np.array([len(part.groups) for part in parts], np.int64)),
        index=index,
        member_ptr=pointers(np.array([part.member.size for part in parts], np.int64)),
        member=np.concatenate([np.empty(0, np.int64), *(part.member for part in parts)]),
        copy=np.concatenate([np.empty(0, np.int64), *(part.copy for part in parts)]),
    )


@dataclass(frozen=True, slots=True)
class _Stretched:
    """What became of one group; see StretchedGroups."""

    groups: list[Group]
    spans: bool
    coordinate: int
    member: Int64
    copy: Int64


def spans(group: Group, along: Stretch) -> bool:
    """Whether the members of a group differ along the dimension."""
    coordinate = along.coordinate(np.array(group.ranks, np.int64))
    return bool((coordinate != coordinate[0]).any())


def _stretched(group: Group, along: Stretch, is_used: bool) -> _Stretched:
    ranks = np.array(group.ranks, np.int64)
    first = int(along.coordinate(ranks[0]))
    if not spans(group, along):
        own = np.arange(ranks.size)
        return _Stretched(_copies(group, ranks, first, along), False, first, own, np.zeros_like(own))
    try:
        _refuse_part(group, ranks, along)
    except NotExpandable:
        if is_used:
            raise
        nobody = np.empty(0, np.int64)
        return _Stretched([], True, first, nobody, nobody)
    return _widened(group, ranks, first, along)


def _widened(group: Group, ranks: Int64, first: int, along: Stretch) -> _Stretched:
    count = along.copies(along.coordinate(ranks))
    member, copy = np.repeat(np.arange(ranks.size), count), ranges(np.zeros_like(count), count)
    new = along.rank(ranks[member], copy)
    order = np.argsort(new)
    wide = Group(group.name, tuple(new[order].tolist()), group.backend)
    return _Stretched([wide], True, first, member[order], copy[order])


def _copies(group: Group, ranks: Int64, coordinate: int, along: Stretch) -> list[Group]:
    """One group for each coordinate that behaves as the group's; the group itself keeps its name."""
    at = range(coordinate, along.to, along.extent)
    names = [group.name, *(f"{group.name}[{along.name}={c}]" for c in at[1:])]
    rows = along.rank(ranks, np.arange(len(at))[:, None]).tolist()
    return [Group(name, tuple(row), group.backend) for name, row in zip(names, rows, strict=True)]


def _refuse_part(group: Group, ranks: Int64, along: Stretch) -> None:
    """A group spans the dimension if it has, with each member, all that differ from it in that coordinate only."""
    lines = np.unique(ranks - along.coordinate(ranks) * along.stride)
    if lines.size * along.extent != ranks.size:
        raise NotExpandable(
            f"{named(group)} takes a part of {along.name}, whose extent is {along.extent}: a group has to lie at one "
            "coordinate of it or span it; divide the mesh so that each does"
        )
    if (np.diff(ranks) < 0).any():
        raise NotExpandable(f"{named(group)} spans {along.name} and does not list its members in the order of ranks")


def named(group: Group) -> str:
    """The group and its first ranks, for an error."""
    ranks = ", ".join(map(str, group.ranks[:SHOWN])) + (", ..." if len(group.ranks) > SHOWN else "")
    return f"group {group.name!r} (ranks {ranks})"
