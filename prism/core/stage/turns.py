"""Whose turn it is: ranks move through their states, and slots go to those who can use them.

A rank computes while it holds a slot. Leaving the states that hold one gives it up, and who could go on gets in line
for one. New ranks get one only if the host's memory admits them, and ranks that wait are told to spill where it is
short. A rank that keeps its slot and does nothing that is heard for a quantum is looked at, and stopped if others
wait, so programs that poll make progress on one slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from prism.core.calls import Ref, Reply
from prism.core.events import PagedIn, PagedOut, Pressed, Probed, Spilled, Suspended, Weighed
from prism.core.instructions import (
    Answer,
    AnyInstruction,
    Deliver,
    Launch,
    Probe,
    Release,
    Resume,
    Run,
    Spill,
    Suspend,
)
from prism.core.stage.admission import UNBOUNDED, Admissions, HostMemory
from prism.core.stage.exchange import Exchange
from prism.core.stage.paging import Pager
from prism.core.stage.ranks import Rank
from prism.core.stage.situation import Situation
from prism.core.stage.slots import Slots
from prism.core.stage.states import ACTS, HOLDS_SLOT, WANTS_SLOT, State, Trigger

QUANTUM = 100_000_000
"""ns without a word after which a rank in a slot is looked at; long against a message, short against a person."""
SCARCE = 10
"""Quanta for which a rank may be silent where memory is short, of the host or of devices: one that is stopped keeps all
that it holds."""
SURE = 500_000_000
"""ns for which nothing may happen before it is sure that only ranks that are not admitted could go on."""


class Turns(Situation):
    """A situation in which ranks can be moved and told something; nothing else moves or tells them."""

    def __init__(
        self,
        ranks: Sequence[int],
        slots: int,
        exchange: Exchange,
        hang_after: int,
        preempt: bool,
        memory: HostMemory = UNBOUNDED,
        hosts: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(ranks, exchange, hang_after)
        self.slots = Slots(slots, ranks, hosts)
        self.admission = Admissions(ranks, slots, memory, hosts)
        self.pager = Pager(self, self.slots, memory.pages_spill)
        self._blocked: dict[int, None] = {}  # ranks that wait, the latest last
        self._deferred: dict[int, list[dict[str, Any]]] = {}  # results that ranks get with their next slot
        self._spent: dict[int, list[Ref]] = {}  # bytes that nobody needs, by the rank that is to hear so
        self._spilling = Counter[int]()  # ranks of each host that were told to and have not said that they have
        self._still: int | None = None  # ns: since when nobody can go on but ranks that are not admitted
        self.seq = 0  # the number of the event that is being handled
        self._preempt = preempt
        self._out: list[AnyInstruction] = []

    def move(self, rank: Rank, trigger: Trigger) -> State:
        """Follow the table, and hand slots over accordingly; returns the state before."""
        before = rank.move(trigger, self.seq)
        after = rank.state
        if before in HOLDS_SLOT and after not in HOLDS_SLOT:
            rank.idle += self.now - rank.since
            self.slots.release(rank.rank)
        if after in WANTS_SLOT and before not in WANTS_SLOT:
            self.slots.enqueue(rank.rank)
        if after is State.ENDED and before in WANTS_SLOT:
            self.slots.drop(rank.rank)
        if after is State.BLOCKED and before is not State.BLOCKED:
            self._blocked[rank.rank] = None
            if self.admission.of(rank.rank).presses():
                self._spill(rank)
        elif after is not State.BLOCKED:
            self._blocked.pop(rank.rank, None)
        if after is State.ENDED and before is not State.ENDED:
            self.admission.of(rank.rank).gone(rank.rank)
            self.pager.gone(rank.rank)
            self._deferred.pop(rank.rank, None)
            self._spent.pop(rank.rank, None)
            self._spilling[self.admission.host(rank.rank)] -= self.ledger.close("spill", rank.rank)
        self.acting += (after in ACTS) - (before in ACTS)
        self.ended += (after is State.ENDED) - (before is State.ENDED)
        return before

    def say(self, kind: type[AnyInstruction], rank: int, /, **fields: Any) -> None:
        """Tell a rank, or its worker about it; what touches its memory once that is on the device."""
        instruction = kind(rank=rank, cause=self.seq, **fields)
        if self.pager.passes(instruction):
            for payload in self._spent.pop(rank, ()):
                self._out.append(Release(rank=rank, cause=self.seq, payload=payload))
            self._out.append(instruction)

    def spend(self, rank: int, payload: Ref) -> None:
        """Nobody needs these bytes of a rank any more: it hears so with what it hears next, which wakes it up."""
        self._spent.setdefault(rank, []).append(payload)

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
        """Whether the rank must not be stopped or let go: others wait for sums it does, or inputs it brings."""
        return bool(self.ledger.of("fold", rank.rank) or self.ledger.of("stage", rank.rank))

    def fill_slots(self) -> None:
        """Let as many go on as there are slots."""
        while (number := self.slots.grant(lambda host: self.admission.hosts[host].admits())) is not None:
            self._let_go_on(number)
        self._make_room()
        self._page()

    def _let_go_on(self, number: int) -> None:
        """A rank has got a slot."""
        rank = self.ranks[number]
        self.admission.of(number).enter(number)
        for result in self._deferred.pop(number, ()):
            self.ledger.close("defer", number, result["handle"])
            self._deliver(number, **result)
        before = self.move(rank, Trigger.GRANT)
        rank.since = self.now
        if before is State.NEW:
            self.say(Launch, number)
            return
        rank.switches += 1
        if before is State.STOPPED:
            self.say(Resume, number)
        elif rank.reply is not None:
            self.answer(number, rank.call, rank.reply)
            rank.reply = None
        else:
            self.say(Run, number)

    # -- memory ------------------------------------------------------------------------------------------------------

    def deliver(self, rank: Rank, handle: int, **result: Any) -> None:
        """Tell a rank that an operation is done; one that is in line hears it with its slot, and so wakes up once.

        Until then it needs no memory for the result. A rank that is not in line may have a callback on the result by
        which others can go on.
        """
        if rank.state is State.READY:
            self.ledger.open("defer", rank.rank, handle)
            self._deferred.setdefault(rank.rank, []).append({"handle": handle, **result})
        else:
            self._deliver(rank.rank, handle, **result)

    def _deliver(self, rank: int, handle: int, **result: Any) -> None:
        self.ledger.open("deliver", rank, handle)
        self.say(Deliver, rank, handle=handle, **result)

    def on_weighed(self, rank: Rank, event: Weighed) -> None:
        """What a rank holds of the host's memory."""
        self.move(rank, Trigger.SPEAK)
        self.admission.of(rank.rank).weighed(rank.rank, event.nbytes, event.shared)

    def on_spilled(self, rank: Rank, event: Spilled) -> None:
        """A rank has spilled; one that got a slot meanwhile takes its memory back."""
        self.move(rank, Trigger.WORK)
        memory = self.admission.of(rank.rank)
        self._spilling[self.admission.host(rank.rank)] -= self.ledger.close("spill", rank.rank)
        if rank.rank in self._blocked:
            memory.spilled(rank.rank, event.nbytes)
        self.refused = self.refused or event.error or memory.impossible()

    def on_paged(self, rank: Rank, event: Pressed | PagedOut | PagedIn) -> None:
        """The device has no memory left for a rank, or the memory of a rank has moved."""
        self.move(rank, Trigger.WORK)
        if rank.state is not State.ENDED:
            self.pager.hear(event)

    def _page(self) -> None:
        """Let memory move to where it is needed next; who was stopped and is in the way goes on out of turn."""
        self.pager.settle()
        if (stopped := self.pager.in_the_way()) is not None:
            self.slots.claim(stopped)
            self._let_go_on(stopped)
        for instruction in self.pager.said():
            self._out.append(msgspec.structs.replace(instruction, cause=self.seq))
        self.broke = self.broke or self.pager.broke

    def _spill(self, rank: Rank) -> None:
        if not self.ledger.of("spill", rank.rank):
            self.ledger.open("spill", rank.rank)
            self._spilling[self.admission.host(rank.rank)] += 1
            self.say(Spill, rank.rank)

    def _make_room(self) -> None:
        """On hosts where only ranks without a process could use a slot, let one that waits spill, the latest first.

        It will not be needed for longer than the others: ranks go on in the order in which they came.
        """
        held_back = self.slots.held_back
        for host in held_back:
            if not self._spilling[host] and (latest := self._latest_to_spill(host)) is not None:
                self._spill(self.ranks[latest])
        if not held_back or self._spilling.total() or self.slots.free < self.slots.count or self._any_busy():
            self._still = None
        elif self._still is None:
            self._still = self.now
        elif self.now - self._still >= SURE:
            self.refused = self.admission.hosts[held_back[0]].refusal()

    def _latest_to_spill(self, host: int) -> int | None:
        could = reversed(self._blocked) if self.admission.memory.spills else ()
        here = (rank for rank in could if self.admission.host(rank) == host)
        return next((rank for rank in here if not self.admission.of(rank).has_spilled(rank)), None)

    def _any_busy(self) -> bool:
        return any(self.ledger.busy(rank) for rank in self.ranks)

    # -- silence -----------------------------------------------------------------------------------------------------

    def look_at_the_silent(self) -> None:
        """Have every rank looked at that has been silent in its slot for a quantum."""
        short = not self.pager.residency.quiet
        patience = {
            host: QUANTUM * (SCARCE if short or of.presses() else 1) for host, of in self.admission.hosts.items()
        }
        for rank in self.ranks.values() if self._preempt else ():
            silent = rank.state is State.RUNNING
            silent = silent and self.now - rank.since >= patience[self.admission.host(rank.rank)]
            silent = silent and self.pager.residency.still(rank.rank)
            looked_at = self.ledger.of("probe", rank.rank) or self.ledger.of("suspend", rank.rank)
            if silent and not looked_at:
                self.ledger.open("probe", rank.rank)
                self.say(Probe, rank.rank)

    def on_probed(self, rank: Rank, event: Probed) -> None:
        """What was seen of a silent rank; it is stopped if others could use its slot.

        Where memory of devices is short they could not, but one that waits, or is silent for long, may wait for them.
        """
        self.move(rank, Trigger.WORK)
        self.ledger.close("probe", rank.rank)
        rank.idle_probes = rank.idle_probes + 1 if event.waiting and rank.open else 0
        for_others = event.waiting or self.pager.residency.quiet or self.now - rank.since >= SCARCE * SCARCE * QUANTUM
        if for_others and self.slots.waiting(rank.rank) and self._may_stop(rank):
            self.ledger.open("suspend", rank.rank)
            self.say(Suspend, rank.rank)

    def on_suspended(self, rank: Rank, event: Suspended) -> None:
        """A rank is stopped, unless it has blocked, or has been given something to do, before that came true."""
        self.ledger.close("suspend", rank.rank)
        if self._may_stop(rank):
            self.move(rank, Trigger.SUSPENDED)
        elif rank.state is not State.ENDED:
            self.say(Resume, rank.rank)

    def _may_stop(self, rank: Rank) -> bool:
        """Whether the rank computes, and nobody waits for it to do anything meanwhile."""
        return rank.state is State.RUNNING and self.pager.residency.still(rank.rank) and not self.busy(rank)
