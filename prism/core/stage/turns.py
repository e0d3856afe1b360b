"""Whose turn it is: ranks move through their states, and slots go to those who can use them.

A rank computes while it holds a slot. Leaving the states that hold one gives it up, and who could go on gets in line
for one. A rank that keeps its slot and does nothing that is heard for a quantum is looked at, and stopped if others
wait, so programs that poll make progress on one slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prism.core.events import Answer, AnyInstruction, Launch, Probe, Probed, Reply, Resume, Run, Suspend, Suspended
from prism.core.stage.exchange import Exchange
from prism.core.stage.ranks import Rank
from prism.core.stage.situation import Situation
from prism.core.stage.slots import Slots
from prism.core.stage.states import ACTS, HOLDS_SLOT, WANTS_SLOT, State, Trigger

QUANTUM = 100_000_000
"""ns without a word after which a rank in a slot is looked at; long against a message, short against a person."""


class Turns(Situation):
    """A situation in which ranks can be moved and told something; nothing else moves or tells them."""

    def __init__(self, ranks: Sequence[int], slots: int, exchange: Exchange, hang_after: int, preempt: bool) -> None:
        super().__init__(ranks, exchange, hang_after)
        self.slots = Slots(slots, ranks)
        self.seq = 0  # the number of the event that is being handled
        self._preempt = preempt
        self._out: list[AnyInstruction] = []

    def move(self, rank: Rank, trigger: Trigger) -> State:
        """Follow the table, and hand slots over accordingly; returns the state before."""
        before = rank.move(trigger, self.seq)
        after = rank.state
        if before in HOLDS_SLOT and after not in HOLDS_SLOT:
            rank.idle += self.now - rank.since
            self.slots.release()
        if after in WANTS_SLOT and before not in WANTS_SLOT:
            self.slots.enqueue(rank.rank)
        if after is State.ENDED and before in WANTS_SLOT:
            self.slots.drop(rank.rank)
        self.acting += (after in ACTS) - (before in ACTS)
        self.ended += (after is State.ENDED) - (before is State.ENDED)
        return before

    def say(self, kind: type[AnyInstruction], rank: int, /, **fields: Any) -> None:
        """Tell a rank, or its worker about it."""
        self._out.append(kind(rank=rank, cause=self.seq, **fields))

    def answer(self, rank: int, call: int, reply: Reply) -> None:
        """Tell a rank what the store said."""
        self.say(
            Answer, rank, call=call, value=reply.value, number=reply.number, present=reply.present, error=reply.error
        )

    def said(self) -> list[AnyInstruction]:
        """What has been said since this was last asked."""
        out, self._out = self._out, []
        return out

    def busy(self, rank: Rank) -> bool:
        """Whether the rank must not be stopped or let go: it has sums to do that others wait for."""
        return bool(self.ledger.of("fold", rank.rank))

    def fill_slots(self) -> None:
        """Let as many go on as there are slots."""
        while (number := self.slots.grant()) is not None:
            rank = self.ranks[number]
            before = self.move(rank, Trigger.GRANT)
            rank.since = self.now
            if before is State.NEW:
                self.say(Launch, number)
                continue
            rank.switches += 1
            if before is State.STOPPED:
                self.say(Resume, number)
            elif rank.reply is not None:
                self.answer(number, rank.call, rank.reply)
                rank.reply = None
            else:
                self.say(Run, number)

    def look_at_the_silent(self) -> None:
        """Have every rank looked at that has been silent in its slot for a quantum."""
        for rank in self.ranks.values() if self._preempt else ():
            silent = rank.state is State.RUNNING and self.now - rank.since >= QUANTUM
            looked_at = self.ledger.of("probe", rank.rank) or self.ledger.of("suspend", rank.rank)
            if silent and not looked_at:
                self.ledger.open("probe", rank.rank)
                self.say(Probe, rank.rank)

    def on_probed(self, rank: Rank, event: Probed) -> None:
        """What was seen of a silent rank; it is stopped if others could use its slot."""
        self.move(rank, Trigger.WORK)
        self.ledger.close("probe", rank.rank)
        rank.idle_probes = rank.idle_probes + 1 if event.waiting and rank.open else 0
        if rank.state is State.RUNNING and self.slots.waiting and not self.busy(rank):
            self.ledger.open("suspend", rank.rank)
            self.say(Suspend, rank.rank)

    def on_suspended(self, rank: Rank, event: Suspended) -> None:
        """A rank is stopped, unless it has blocked, or has been given something to do, before that came true."""
        self.ledger.close("suspend", rank.rank)
        if rank.state is State.RUNNING and not self.busy(rank):
            self.move(rank, Trigger.SUSPENDED)
        elif rank.state is not State.ENDED:
            self.say(Resume, rank.rank)
