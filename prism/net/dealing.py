"""Which assistant plays the virtual ranks where: a sandbox rank may have several, which take its lanes in turns.

A lane is what runs serially: the operations of a group, or the messages from one rank to another with one tag. So the
virtual ranks of the stage before, of the stage after and of the own one are in different lanes. Processes are numbered
as ranks are: assistant k of the rank at place p of s sandbox ranks is -1 - (p + k s).
"""

from __future__ import annotations

from collections.abc import Mapping

from prism.net.schedule import Schedule

Lane = tuple[int, int, int, int]
"""The row of a group, and the sender, the receiver and the tag of messages (-1 each of collectives)."""


def collectives(row: int) -> Lane:
    """The lane of a group's collectives."""
    return row, -1, -1, -1


def lane_of(schedule: Schedule, op: int) -> Lane:
    """The lane of a touching operation."""
    ops, row = schedule.ops, int(schedule.ops.group[op])
    if ops.sender[op] < 0:
        return collectives(row)
    return row, int(ops.sender[op]), int(ops.receiver[op]), int(ops.tag[op])


def lanes(schedule: Schedule) -> dict[int, list[Lane]]:
    """The lanes of each sandbox rank, in the order in which it first posts in them."""
    return {
        part.rank: list(dict.fromkeys(lane_of(schedule, op) for op in part.ops if op >= 0))
        for part in schedule.plain.parts
    }


def most_lanes(schedule: Schedule) -> int:
    """How many assistants of a sandbox rank have something to do at most."""
    return max(1, *map(len, lanes(schedule).values()))


def dealt(schedule: Schedule, each: int) -> Mapping[tuple[int, Lane], int]:
    """The assistant that plays in a lane of a sandbox rank, where each rank has so many."""
    count = len(schedule.touching.sandbox)
    place = {rank: place for place, rank in enumerate(schedule.touching.sandbox)}
    return {
        (rank, lane): -1 - (place[rank] + number % each * count)
        for rank, used in lanes(schedule).items()
        for number, lane in enumerate(used)
    }
