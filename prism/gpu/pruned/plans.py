"""What the parties of a pruned collective do, step by step, and when: the engine's plans, to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int64
from typing import NamedTuple

import numpy as np

from prism.gpu.pruned import Int64, Op, Pace, abi


class MemberStep(NamedTuple):
    """One step of a member: what is done with elements first .. last."""

    receive: bool
    reduce: bool  # with the own input
    store: bool
    send: bool
    complete: bool  # the sum is
    first: int
    last: int


class ArcStep(NamedTuple):
    """One send of an arc: of chunk `owner`, elements first .. last."""

    delayed: bool  # it came in
    adders: int  # so many members of the arc have added to it
    total: bool  # it is a part of the result
    complete: bool  # the last one added was the last of all
    owner: int
    first: int
    last: int


def plan(op: Op, rank: int) -> list[MemberStep]:
    """What the algorithm of op.size ranks has this one do."""
    count = _counted(abi.library.pruned_member_plan(op.c(), rank, None))
    rows = (abi.MemberStep * count)()
    abi.library.pruned_member_plan(op.c(), rank, rows)
    return [
        MemberStep(bool(r.receive), bool(r.reduce), bool(r.store), bool(r.send), bool(r.complete), r.first, r.last)
        for r in rows
    ]


def arc_plan(op: Op, sandbox: Sequence[int], after: int) -> list[ArcStep]:
    """What the arc after a sandbox member sends."""
    party = abi.membership("", "", op.size, sandbox, after)
    count = _counted(abi.library.pruned_arc_plan(op.c(), party, None))
    rows = (abi.ArcStep * count)()
    abi.library.pruned_arc_plan(op.c(), party, rows)
    return [ArcStep(bool(r.delayed), r.adders, bool(r.total), bool(r.complete), r.owner, r.first, r.last) for r in rows]


def sends_of_arc(op: Op, sandbox: Sequence[int], after: int) -> int:
    """How many sends the plan of the arc after a sandbox member has."""
    return _counted(abi.library.pruned_arc_plan(op.c(), abi.membership("", "", op.size, sandbox, after), None))


class Branch(NamedTuple):
    """Virtual members that hang together in a tree, below the sandbox member `above` (-1: the root is among them)."""

    tree: int
    top: int
    above: int
    slot: int
    carries: bool  # with the contribution `left`, the rest
    members: int
    below: int  # so many sandbox members hang below it


def branches(size: int, sandbox: Sequence[int], rank: int, nodes: Sequence[int] = ()) -> list[Branch]:
    """The branches that a sandbox member keeps."""
    party = abi.membership("", "", size, sandbox, rank, nodes)
    rows = (abi.Branch * _counted(abi.library.pruned_branches(party, None)))()
    abi.library.pruned_branches(party, rows)
    return [Branch(r.tree, r.top, r.above, r.slot, bool(r.carries), r.members, r.below) for r in rows]


def release_times(op: Op, sandbox: Sequence[int], after: int, pace: Pace, arrivals: Int64) -> Int64:
    """When the next sandbox member has each send of the arc, given when each send of the one before was handed over."""
    party = abi.membership("", "", op.size, sandbox, after)
    times = (c_int64 * _counted(abi.library.pruned_arc_plan(op.c(), party, None)))()
    status = abi.library.pruned_release_times(op.c(), party, pace.c(), abi.array(arrivals), len(arrivals), times)
    abi.check(status)
    return np.array(times, np.int64)


def _counted(count: int) -> int:
    if count < 0:
        raise ValueError(abi.library.pruned_error().decode())
    return count
