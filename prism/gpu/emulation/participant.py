"""A sandbox rank's part in the touching operations: which engine runs each, from which memory into which."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch

from prism.core.calls import Call
from prism.core.events import Posted
from prism.core.graph import OpKind
from prism.core.record import PostStep, RankRecord
from prism.core.stage.walk import Walk, step_of
from prism.gpu.emulation.buffers import Buffer, copied, in_place
from prism.gpu.emulation.clock import now
from prism.gpu.emulation.engine_calls import engine_op, group_name, message_bytes, pipe_name, result_bytes
from prism.gpu.emulation.executor import Executors
from prism.gpu.pruned import Aborted, Member, PeerLost, Pipe, cause
from prism.net.board import Board
from prism.net.schedule import Schedule

START_POLL_S = 0.001

Arrived = Callable[[Buffer | None, PostStep], None]
"""Hears that an operation is done: its bytes, None if they lie where they belong, and its step in the record."""


class Participant:
    """The posts of one sandbox rank; `failed` hears what the engine raises.

    `recorded`: the outputs are not to be filled, since results come from the record.
    """

    def __init__(
        self,
        rank: int,
        fifos: Path,
        schedule: Schedule,
        board: Board,
        recorded: bool,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._recorded = recorded
        self._fifos = fifos
        self._schedule = schedule
        self._board = board
        self._place = schedule.touching.sandbox.index(rank)
        self._rank = rank
        part = next(part for part in schedule.plain.parts if part.rank == rank)
        self._walk = Walk(RankRecord(rank, [*part.steps]))  # of posts alone
        self._ops = {step.handle: op for step, op in zip(part.steps, part.ops, strict=True)}
        self._members: dict[str, Member] = {}
        self._pipes: dict[str, Pipe] = {}
        self._executors = Executors(failed)

    def begin(self) -> None:
        """Say that the program is about to start, and return when all sandbox ranks are."""
        self._board.started[self._place] = now()
        while not self._board.origin:
            time.sleep(START_POLL_S)

    def end(self) -> None:
        """Say that the program has ended."""
        self._board.ended[self._place] = now()

    def all_ended(self) -> bool:
        """Whether the programs of all sandbox ranks have: nobody needs what is still under way here."""
        return bool(self._board.ended.all())

    def any_ended(self) -> bool:
        """Whether the program of a sandbox rank has ended, so that it may be gone."""
        return bool(self._board.ended.any())

    def cause(self, lost: PeerLost) -> PeerLost | Aborted:
        """What the loss of a peer comes of, if anybody says so in a moment."""
        return cause(self._fifos, lost)

    def take(self, event: Posted) -> tuple[int, PostStep] | None:
        """The operation that a post is of, and its step in the record; None if it is not to be carried out.

        That is one that never completed when it was captured, and a post that is not the one in the graph: the
        coordinator, which compares them, ends the run.
        """
        if self._walk.complete:
            return None
        step = self._walk.take(step_of(event))
        if not isinstance(step, PostStep) or step.group != event.group or not _alike(step.call, event.call):
            return None
        op = self._ops[step.handle]
        return None if op < 0 else (op, step)

    def show(self, op: int) -> None:
        """Let all see that the rank has posted an operation."""
        self._board.posted[self._place, op] = now()

    def over(self, op: int) -> bool:
        """Whether an engine has said what it has moved for the rank in an operation."""
        return bool(self._board.moved[self._place, op].any())

    def post(self, event: Posted, inputs: Buffer, outputs: list[torch.Tensor], arrived: Arrived) -> None:
        """Take part in the operation that a post is of; returns at once."""
        taken = self.take(event)
        if taken is None:
            return
        op, step = taken
        self.show(op)
        if event.call.kind is OpKind.SEND_RECV:
            self._message(op, step, inputs, outputs, arrived)
        else:
            self._collective(op, step, event.call, inputs, outputs, arrived)

    def _collective(
        self, op: int, step: PostStep, call: Call, inputs: Buffer, outputs: list[torch.Tensor], arrived: Arrived
    ) -> None:
        name, group = group_name(self._schedule, op), self._schedule.plain.groups[int(self._schedule.ops.group[op])]
        rank = self._group_rank(op)
        work = engine_op(call, group.size, rank, bool(self._schedule.ops.tree[op]))
        size = result_bytes(call, group.size, rank)
        direct = None if self._recorded else in_place(outputs, size)
        replicas = self._schedule.plain.contribution == "replicas"
        has = replicas and call.kind is OpKind.BROADCAST and size and not self._recorded  # what a virtual root has too
        target = direct or (copied(outputs) if has else Buffer.empty(size))

        def run() -> None:
            if name not in self._members:
                self._members[name] = Member(
                    self._fifos, name, group.size, tuple(group.sandbox), rank, replicas, group.nodes
                )
            self._board.moved[self._place, op] = self._members[name].run(work, inputs.address, target.address)
            arrived(None if direct else target, step)

        self._executors.submit(name, run)

    def _message(self, op: int, step: PostStep, inputs: Buffer, outputs: list[torch.Tensor], arrived: Arrived) -> None:
        name, size = pipe_name(self._schedule, op), message_bytes(step, int(self._schedule.ops.nbytes[op]))
        sends = step.call.sends
        if sends and inputs.nbytes != size:
            return  # another message than was captured
        direct = None if sends or self._recorded else in_place(outputs, size)
        target = inputs if sends else direct or Buffer.empty(size)

        def run() -> None:
            if name not in self._pipes:
                self._pipes[name] = Pipe(self._fifos, name)
            move = self._pipes[name].send if sends else self._pipes[name].recv
            move(target.address, size)
            self._board.moved[self._place, op] = (1, size, 0) if sends else (1, 0, size)
            arrived(None if direct or sends else target, step)

        self._executors.submit(name, run)

    def _group_rank(self, op: int) -> int:
        touching = self._schedule.touching
        rows = slice(touching.member_ptr[op], touching.member_ptr[op + 1])
        mine = list(touching.rank[rows]).index(self._rank)
        return int(touching.member[rows][mine])


def _alike(recorded: Call, now: Call) -> bool:
    """Whether the engine may run the call in the place of the recorded one, which may know less of sizes."""
    same = ("kind", "dtype", "sends", "reduce", "root", "peer")
    known = [name for name in ("send", "recv") if getattr(recorded, name)]
    known += ["count"] if recorded.shape else []
    return all(getattr(recorded, name) == getattr(now, name) for name in (*same, *known))
