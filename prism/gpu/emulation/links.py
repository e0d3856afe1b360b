"""Which FIFOs of an emulation have their ends with different processes, so that one may have to be carried to a host.

Processes are numbered as ranks are: a sandbox rank by itself, assistants below 0 (prism.net.dealing).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prism.core.graph import OpKind
from prism.gpu.emulation.engine_calls import PAIRWISE, named, pipe_name
from prism.gpu.pruned.bridge import Link, Party
from prism.net.dealing import Lane, collectives, dealt, lane_of
from prism.net.schedule import GroupPart, Schedule

Carried = tuple[Link, int, int]
"""A FIFO, and the processes of its sender and its receiver."""


def links(schedule: Schedule, each: int) -> list[Carried]:
    """All FIFOs of a schedule whose groups run along rings and in pairs; each once. A rank has `each` assistants."""
    found: dict[Link, Carried] = {}
    by = dealt(schedule, each)
    for link, sender, receiver in (*_of_groups(schedule, by), *_of_messages(schedule, by)):
        found[link] = (link, sender, receiver)
    return list(found.values())


def _of_groups(schedule: Schedule, by: Mapping[tuple[int, Lane], int]) -> Iterator[Carried]:
    kinds = _kinds(schedule)
    for row, part in schedule.plain.groups.items():
        assistants = {rank: number for (rank, lane), number in by.items() if lane == collectives(row)}
        of_group = {kind for op, kind in kinds.items() if schedule.ops.group[op] == row}
        if of_group - PAIRWISE - {OpKind.SEND_RECV}:
            yield from _ring(named(row), part, assistants)
        if of_group & PAIRWISE:
            yield from _pairs(named(row), part, assistants)


def _kinds(schedule: Schedule) -> dict[int, OpKind]:
    """The kind of each touching operation."""
    parts = schedule.plain.parts
    return {op: step.call.kind for part in parts for op, step in zip(part.ops, part.steps, strict=True) if op >= 0}


def _ring(name: str, part: GroupPart, assistants: dict[int, int]) -> Iterator[Carried]:
    """Each sandbox member sends to the arc after it, and that to the next one, whose assistant plays it."""
    count = len(part.sandbox)
    for place, (member, rank) in enumerate(zip(part.sandbox, part.ranks, strict=True)):
        after = (place + 1) % count
        following, next_rank = part.sandbox[after], part.ranks[after]
        me, other = Party("member", member), Party("member", following)
        between = (following - member - 1) % part.size if count > 1 else part.size - 1
        if between:
            arc = Party("arc", member)
            yield Link(name, me, arc), rank, assistants[next_rank]
            yield Link(name, arc, other), assistants[next_rank], next_rank
        elif count > 1:
            yield Link(name, me, other), rank, next_rank


def _pairs(name: str, part: GroupPart, assistants: dict[int, int]) -> Iterator[Carried]:
    """Each sandbox member and its virtual partners, and all sandbox members with each other."""
    members = list(zip(part.sandbox, part.ranks, strict=True))
    for member, rank in members:
        me, peers = Party("member", member), Party("peers", member)
        yield Link(name, me, peers), rank, assistants[rank]
        yield Link(name, peers, me), assistants[rank], rank
        for other, other_rank in members:
            if other != member:
                yield Link(name, me, Party("member", other)), rank, other_rank


def _of_messages(schedule: Schedule, by: Mapping[tuple[int, Lane], int]) -> Iterator[Carried]:
    for op in (op for op, kind in _kinds(schedule).items() if kind is OpKind.SEND_RECV):
        sender, receiver = int(schedule.ops.sender[op]), int(schedule.ops.receiver[op])
        lane = lane_of(schedule, op)
        ends = [
            rank if rank in schedule.touching.sandbox else by[other, lane]
            for rank, other in ((sender, receiver), (receiver, sender))
        ]
        yield Link(pipe_name(schedule, op)), ends[0], ends[1]
