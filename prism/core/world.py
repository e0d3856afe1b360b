"""The world: all logical ranks, what they wait for, and what to tell them next.

One mutator, `handle(event) -> instructions`, and nothing else changes state. The world knows no clock but the `at` of
the events, no process and no socket; a recorded list of events gives the same instructions every time.

A rank computes while it holds a slot. Where it blocks the slot goes to the next in line. A rank that keeps its slot and
says nothing for a quantum is looked at (Probe), and stopped if others wait, so programs that poll make progress on one
slot. The run is over when all ranks have ended, or as soon as it cannot go well any more: see `prism.core.verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prism.core import verdict
from prism.core.answers import Diverged
from prism.core.events import (
    Answer,
    AnyEvent,
    AnyInstruction,
    Asked,
    Deliver,
    Delivered,
    Event,
    Exited,
    Finished,
    Fold,
    Folded,
    Interrupted,
    Joined,
    Kill,
    Launch,
    Launched,
    Leave,
    Marked,
    Noticed,
    Polled,
    Posted,
    Probe,
    Probed,
    Raised,
    Release,
    Resume,
    Run,
    Suspend,
    Suspended,
    Ticked,
    Waited,
)
from prism.core.exchange import Done, Exchange, FoldDue, Outcome, Spent
from prism.core.graph import OpKind
from prism.core.matching import Op
from prism.core.ranks import Rank
from prism.core.situation import Situation
from prism.core.slots import Slots
from prism.core.states import ACTS, HOLDS_SLOT, State, Trigger
from prism.core.store import Reply

QUANTUM = 100_000_000
"""ns of silence after which a rank in a slot is looked at; long against a message (0.1 ms), short against a person."""


CHANGES_STORE = frozenset({"set", "add", "append", "compare_set"})
"""Calls of the store after which a key may be there that somebody waits for."""


class World(Situation):
    """One stage: `ranks` run on `slots` slots, and `exchange` answers what they post."""

    def __init__(self, ranks: Sequence[int], slots: int, exchange: Exchange, hang_after: int, preempt: bool = True):
        super().__init__(ranks, exchange, hang_after)
        self.slots = Slots(slots, ranks)
        self._preempt = preempt
        self._killed = False
        self._seq = 0
        self._folds: dict[int, Op] = {}
        self._side_asks: list[Asked] = []  # store calls of threads that are not the main one
        self._out: list[AnyInstruction] = []

    def start(self) -> list[AnyInstruction]:
        """The first instructions."""
        self._fill_slots()
        return self._take()

    def handle(self, event: AnyEvent) -> list[AnyInstruction]:
        """Take one event in; returns what to tell whom."""
        self._seq += 1
        self.now = max(self.now, event.at)
        decided = self.over
        if event.rank < 0:
            self.interrupted = self.interrupted or isinstance(event, Interrupted)
        elif decided:
            self._after_the_end(event)
        else:
            self._hear(event)
        if not decided and self.diagnosis is None and not self.interrupted:
            self._judge(event)
            if not self.over:
                self._fill_slots()
        if self.over and not self._killed:
            self._killed = True
            for rank in self.ranks.values():
                if rank.alive:
                    self._say(Kill, rank.rank)
        return self._take()

    # -- hearing -----------------------------------------------------------------------------------------------------

    def _hear(self, event: AnyEvent) -> None:
        rank = self.ranks[event.rank]
        if not isinstance(event, Probed | Suspended):
            rank.idle_probes = 0
        if not isinstance(event, Probed | Suspended | Delivered | Polled | Asked):
            rank.since, rank.idle, rank.polls = event.at, 0, 0
        rank.site = getattr(event, "site", "") or rank.site
        try:
            _HANDLERS[type(event)](self, rank, event)
        except Diverged as error:
            self.diagnosis = verdict.diverged(self, error)

    def _after_the_end(self, event: AnyEvent) -> None:
        """Only endings matter once the run is decided; who was being started when all were killed is killed now."""
        if isinstance(event, Launched):
            self._say(Kill, event.rank)
        if isinstance(event, Exited) and self.ranks[event.rank].alive:
            rank = self.ranks[event.rank]
            rank.code = event.code if rank.code is None else rank.code
            self._move(rank, Trigger.EXITED)

    def _launched(self, rank: Rank, event: Launched) -> None:
        self._move(rank, Trigger.LAUNCHED)

    def _joined(self, rank: Rank, event: Joined) -> None:
        self._move(rank, Trigger.SPEAK)
        self.exchange.join(event)

    def _posted(self, rank: Rank, event: Posted) -> None:
        self._move(rank, Trigger.SPEAK)
        rank.open[event.handle] = event
        self._follow(self.exchange.post(event))

    def _waited(self, rank: Rank, event: Waited) -> None:
        self.exchange.wait(event)
        rank.awaits = rank.unfinished(event.handles) if event.blocks else ()
        if rank.awaits:
            self._move(rank, Trigger.BLOCK)
            self.slots.release()
        else:
            self._move(rank, Trigger.SPEAK)
            if event.blocks:
                self._say(Run, rank.rank)

    def _polled(self, rank: Rank, event: Polled) -> None:
        self._yield(rank, event.handle)

    def _yield(self, rank: Rank, handle: int) -> None:
        """A poll that failed: others first."""
        if rank.polled != handle or not rank.polls:
            rank.polled, rank.polls, rank.polls_since = handle, 0, self.now
        rank.polls += 1
        self._move(rank, Trigger.YIELD)
        self.slots.release()
        self.slots.enqueue(rank.rank)

    def _asked(self, rank: Rank, event: Asked) -> None:
        reply = self.exchange.ask(event)
        if not event.main:
            self._move(rank, Trigger.SPEAK)
            if reply is None:
                self._side_asks.append(event)
            else:
                self._answer(rank.rank, event.number, reply)
        elif reply is None:
            rank.polls = 0
            rank.asks, rank.call = event.request, event.number
            self._move(rank, Trigger.BLOCK)
            self.slots.release()
        elif event.request.action == "check" and not reply.present:
            rank.reply, rank.call = reply, event.number
            self._yield(rank, 0)
        else:
            rank.polls = 0
            self._move(rank, Trigger.SPEAK)
            self._answer(rank.rank, event.number, reply)
        if event.request.action in CHANGES_STORE:
            self._ask_again()

    def _marked(self, rank: Rank, event: Marked) -> None:
        self._move(rank, Trigger.SPEAK)
        rank.iterations += 1
        self.exchange.mark(event)

    def _folded(self, rank: Rank, event: Folded) -> None:
        self._move(rank, Trigger.WORK)
        if self.ledger.close("fold", rank.rank, event.op):
            del self._folds[event.op]
            self._follow(self.exchange.folded(event))
        if rank.state is State.FINISHING and not self.ledger.of("fold", rank.rank):
            self._say(Leave, rank.rank)

    def _delivered(self, rank: Rank, event: Delivered) -> None:
        self._move(rank, Trigger.WORK)
        self.ledger.close("deliver", rank.rank, event.handle)

    def _probed(self, rank: Rank, event: Probed) -> None:
        self._move(rank, Trigger.WORK)
        self.ledger.close("probe", rank.rank)
        rank.idle_probes = rank.idle_probes + 1 if event.waiting and rank.open else 0
        if rank.state is State.RUNNING and self.slots.waiting and not self.ledger.of("fold", rank.rank):
            self.ledger.open("suspend", rank.rank)
            self._say(Suspend, rank.rank)

    def _suspended(self, rank: Rank, event: Suspended) -> None:
        self.ledger.close("suspend", rank.rank)
        if rank.state is State.RUNNING and not self.ledger.of("fold", rank.rank):
            self._move(rank, Trigger.SUSPENDED)
            self.slots.release()
            self.slots.enqueue(rank.rank)
        elif rank.state is not State.ENDED:  # it blocked, or got work to do, before it was stopped
            self._say(Resume, rank.rank)

    def _noticed(self, rank: Rank, event: Noticed) -> None:
        self._move(rank, Trigger.SPEAK)
        self.exchange.warnings.add(event.kind, event.summary, rank.rank)

    def _raised(self, rank: Rank, event: Raised) -> None:
        self._move(rank, Trigger.RAISED)
        rank.error, rank.traceback = event.error, event.traceback
        self.failed.setdefault(rank.rank, self.now)

    def _finished(self, rank: Rank, event: Finished) -> None:
        self._move(rank, Trigger.FINISHED)
        rank.code, rank.cut, rank.peak_bytes = event.code, event.cut, event.peak_bytes
        if event.code:
            self.failed.setdefault(rank.rank, self.now)
        self.slots.release()
        if not self.ledger.of("fold", rank.rank):
            self._say(Leave, rank.rank)

    def _exited(self, rank: Rank, event: Exited) -> None:
        if self._move(rank, Trigger.EXITED) in HOLDS_SLOT:
            self.slots.release()
        self.slots.drop(rank.rank)
        finished = rank.code is not None
        rank.code = rank.code if finished else event.code
        if not finished and not (event.code == 0 and not rank.error):
            self.failed.setdefault(rank.rank, self.now)
        orphans = self.ledger.of("fold", rank.rank)
        self.ledger.cancel(rank.rank)
        for number in orphans:
            self._fold(self._folds[number])

    # -- deciding ----------------------------------------------------------------------------------------------------

    def _follow(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            match outcome:
                case Done():
                    self._done(self.ranks[outcome.rank], outcome)
                case FoldDue(op=op, rank=number):
                    self._fold(op, number)
                case Spent(rank=number, payload=payload):
                    if self.ranks[number].alive:
                        self._say(Release, number, payload=payload)

    def _done(self, rank: Rank, done: Done) -> None:
        del rank.open[done.handle]
        if not rank.alive:
            return
        self.ledger.open("deliver", rank.rank, done.handle)
        self._say(Deliver, rank.rank, handle=done.handle, result=done.result, blocks=done.blocks)
        if rank.awaits:
            rank.awaits = rank.unfinished(rank.awaits)
            if not rank.awaits and rank.state is State.BLOCKED:
                self._unblock(rank)

    def _unblock(self, rank: Rank) -> None:
        self._move(rank, Trigger.UNBLOCK)
        self.slots.enqueue(rank.rank)

    def _fold(self, op: Op, rank: int | None = None) -> None:
        """Let `rank` do the sum, or any member that is alive."""
        if rank is None:
            rank = next((r for r in op.members if self.ranks[r].alive), None)
        if rank is None:
            return
        call, posts = op.call, [op.posts[m] for m in range(len(op.members))]
        splits = op.splits() if call.kind in (OpKind.ALL_TO_ALL, OpKind.REDUCE_SCATTER) else ()
        inputs = tuple(p.payload for p in posts)
        self._folds[op.number] = op
        self.ledger.open("fold", rank, op.number)
        self._say(
            Fold, rank, op=op.number, kind=call.kind, dtype=call.dtype, reduce=call.reduce, root=call.root,
            inputs=inputs, splits=splits,
        )  # fmt: skip

    def _ask_again(self) -> None:
        """The store changed: whoever waits for a key asks once more."""
        for rank in self.ranks.values():
            if rank.asks is not None and rank.state is State.BLOCKED:
                reply = self.exchange.ask(Asked(rank=rank.rank, at=self.now, request=rank.asks))
                if reply is not None:
                    rank.asks, rank.reply = None, reply
                    self._unblock(rank)
        waiting, self._side_asks = self._side_asks, []
        for event in waiting:
            reply = self.exchange.ask(event)
            if reply is None:
                self._side_asks.append(event)
            elif self.ranks[event.rank].alive:
                self._answer(event.rank, event.number, reply)

    def _fill_slots(self) -> None:
        while (number := self.slots.grant()) is not None:
            rank = self.ranks[number]
            before = self._move(rank, Trigger.GRANT)
            rank.since = self.now
            if before is State.NEW:
                self._say(Launch, number)
                continue
            rank.switches += 1
            if before is State.STOPPED:
                self._say(Resume, number)
            elif rank.reply is not None:
                self._answer(number, rank.call, rank.reply)
                rank.reply = None
            else:
                self._say(Run, number)

    def _judge(self, event: AnyEvent) -> None:
        """End the run if it cannot go well; looked at now and then, for it looks at all ranks."""
        if self.troubled is None and (self.failed or self.exchange.broken):
            self.troubled = self.now
        if isinstance(event, Ticked):
            self._probe_the_silent()
        if isinstance(event, Ticked | Exited) or not self.acting or self.troubled is not None:
            self.diagnosis = verdict.inevitable(self)

    def _probe_the_silent(self) -> None:
        for rank in self.ranks.values():
            silent = rank.state is State.RUNNING and self.now - rank.since >= QUANTUM
            looked_at = self.ledger.of("probe", rank.rank) or self.ledger.of("suspend", rank.rank)
            if self._preempt and silent and not looked_at:
                self.ledger.open("probe", rank.rank)
                self._say(Probe, rank.rank)

    def _move(self, rank: Rank, trigger: Trigger) -> State:
        before = rank.move(trigger, self._seq)
        if before in HOLDS_SLOT and rank.state not in HOLDS_SLOT:
            rank.idle += self.now - rank.since
        self.acting += (rank.state in ACTS) - (before in ACTS)
        self.ended += (rank.state is State.ENDED) - (before is State.ENDED)
        return before

    def _answer(self, rank: int, call: int, reply: Reply) -> None:
        self._say(
            Answer, rank, call=call, value=reply.value, number=reply.number, present=reply.present, error=reply.error
        )

    def _say(self, kind: type[AnyInstruction], rank: int, /, **fields: Any) -> None:
        self._out.append(kind(rank=rank, cause=self._seq, **fields))

    def _take(self) -> list[AnyInstruction]:
        out, self._out = self._out, []
        return out


_HANDLERS: dict[type[Event], Callable[[World, Rank, Any], None]] = {
    Launched: World._launched, Joined: World._joined, Posted: World._posted, Waited: World._waited,
    Polled: World._polled, Asked: World._asked, Marked: World._marked, Folded: World._folded,
    Delivered: World._delivered, Probed: World._probed, Suspended: World._suspended, Noticed: World._noticed,
    Raised: World._raised,     Finished: World._finished, Exited: World._exited,
}  # fmt: skip
