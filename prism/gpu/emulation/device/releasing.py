"""Telling a device when virtual members post: in the place of playing them, which the device does by itself.

A send ends when the latest of the members whose posts it depends on has posted, each with the hops that lie between
(ext/nccl/pace.h). Along a ring the device works that out of their posts; along a chain it is told.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np

from prism.core.graph import Int64, OpKind
from prism.gpu.emulation.device.planned import Plan, Planned
from prism.gpu.emulation.engine_calls import PAIRWISE
from prism.gpu.pruned import Op, arcs
from prism.gpu.pruned.plans import sends_of_arc
from prism.net.board import Board
from prism.net.releases import Releases
from prism.net.schedule import GroupPart, Schedule, releases_of


class OnDevice:
    """The device of a sandbox rank plays them, and is told of posts through `releases` as far as there is room."""

    def __init__(self, plan: Plan, schedule: Schedule, rank: int, board: Board, releases: Path) -> None:
        self.ops = frozenset(op for op, entries in plan.entries.items() if entries)
        self._plan = plan
        self._schedule = schedule
        self._virtual = plan.virtual
        self._ended = board.moved[schedule.touching.sandbox.index(rank)]
        self._sends: dict[tuple[object, ...], int] = {}
        self._due: deque[tuple[int, Int64]] = deque()  # entries for which there was no room yet
        self._releases = Releases(releases, max((self._most_heads(one) for one in plan.calls), default=0))
        self._check_room()

    @classmethod
    def of(cls, schedule: Schedule, rank: int, directory: Path, payloads: Path, board: Board) -> OnDevice:
        """Those that answer a sandbox rank, in the directory of the emulation."""
        return cls(Plan(schedule, rank, payloads), schedule, rank, board, directory / releases_of(rank))

    def begin(self, op: int, posts: Int64) -> None:
        """Tell the device when the virtual members of an operation post."""
        for entry in self._plan.entries[op]:
            self._due.append((entry, self._heads(self._plan.calls[entry], posts)))
        self.turn()

    def turn(self) -> bool:
        """Tell what there is room for; returns whether something is left."""
        for _ in range(len(self._due)):
            entry, heads = self._due.popleft()
            if self._has_room(entry):
                self._releases.tell(entry, heads)
            else:
                self._due.append((entry, heads))
        return bool(self._due)

    def _check_room(self) -> None:
        """Raise for an operation of more calls than there are entries: the device would wait for ever."""
        most = max(map(len, self._plan.entries.values()), default=0)
        if most > self._releases.window:
            raise NotImplementedError(
                f"a collective of {most} unequal blocks, where at most {self._releases.window} are emulated on a GPU; "
                "give its members equal blocks, or emulate it on a CPU"
            )

    def _has_room(self, entry: int) -> bool:
        """Whether the operation that had the entry's place has ended."""
        before = entry - self._releases.window
        return before < 0 or bool(self._ended[self._plan.calls[before].op].any())

    # -- heads -------------------------------------------------------------------------------------------------------

    def _heads(self, call: Planned, posts: Int64) -> Int64:
        if call.kind is OpKind.SEND_RECV:
            return posts
        group = self._group(call.op)
        if call.kind in PAIRWISE:
            of_all = self._virtual.of_all(call.op, posts)
            return of_all[[partner.peer for partner in call.partners]]
        after, of_arc = self._virtual.arc(call.op, posts)
        if not len(of_arc):
            return of_arc
        sends = self._sends_of(call, group, after)
        if call.kind in (OpKind.BROADCAST, OpKind.REDUCE):
            members = arcs(group.size, group.sandbox)[after]
            return chain_heads(call, group.size, members, of_arc, sends)
        return ring_heads(of_arc, sends)

    def _sends_of(self, call: Planned, group: GroupPart, after: int) -> int:
        """How many sends the arc after a member has."""
        key = (call.group, call.kind, call.dtype, call.count, call.root)
        if key not in self._sends:
            op = Op(call.kind, group.size, call.dtype, call.reduce, call.root, call.count)
            self._sends[key] = sends_of_arc(op, group.sandbox, after)
        return self._sends[key]

    def _most_heads(self, call: Planned) -> int:
        if call.kind is OpKind.SEND_RECV or call.kind in PAIRWISE:
            return len(call.partners)
        group, after = self._group(call.op), self._virtual.before(call.op)
        members = len(arcs(group.size, group.sandbox).get(after, ()))
        return min(members, max(self._sends_of(call, group, after), 1)) if members else 0

    def _group(self, op: int) -> GroupPart:
        return self._schedule.plain.groups[int(self._schedule.ops.group[op])]


def ring_heads(posts: Int64, sends: int) -> Int64:
    """Of an arc in a ring whose members post then: those that its sends depend on, from its end."""
    return posts[::-1][: max(sends, 1)]


def chain_heads(call: Planned, size: int, members: tuple[int, ...], posts: Int64, loops: int) -> Int64:
    """Of an arc in a chain: all sends depend on all members from the chain's start on, or on all of the arc."""
    start = call.root if call.kind is OpKind.BROADCAST else (call.root + 1) % size
    senders = posts[members.index(start) if start in members else 0 :][::-1]
    back = np.arange(len(senders))
    hops = call.latency * back // max(size - 1, 1) + call.transfer * back // max(loops + size - 2, 1)
    return np.array([(senders + hops).max()])
