"""The world: all logical ranks, what they wait for, and what to tell them next.

One mutator, `handle(event) -> instructions`, and nothing else changes state. The world knows no clock but the `at` of
the events, no process and no socket; a recorded list of events gives the same instructions every time. What can be
seen of it is in prism.core.stage.situation, whose turn it is in prism.core.stage.turns, when it cannot go well in
prism.core.stage.verdict, and what operations give in the exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prism.core.events import (
    AnyEvent,
    AnyInstruction,
    Asked,
    Broke,
    Completed,
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
    Launched,
    Leave,
    Marked,
    Noticed,
    Polled,
    Posted,
    Probed,
    Raised,
    Ref,
    Release,
    Run,
    Suspended,
    Ticked,
    Waited,
)
from prism.core.graph import OpKind
from prism.core.stage import verdict
from prism.core.stage.answers import Diverged
from prism.core.stage.exchange import Done, Exchange, FoldDue, Lent, Outcome, Spent
from prism.core.stage.loans import Loans
from prism.core.stage.ranks import Rank
from prism.core.stage.states import State, Trigger
from prism.core.stage.store import SETS
from prism.core.stage.turns import Turns


class World(Turns):
    """One stage: `ranks` run on `slots` slots, and `exchange` answers what they post."""

    def __init__(self, ranks: Sequence[int], slots: int, exchange: Exchange, hang_after: int, preempt: bool = True):
        super().__init__(ranks, slots, exchange, hang_after, preempt)
        self._killed = False
        self._folds: dict[int, FoldDue] = {}
        self._loans = Loans()
        self._side_asks: list[Asked] = []  # store calls of threads that are not the main one

    def start(self) -> list[AnyInstruction]:
        """The first instructions."""
        self.fill_slots()
        return self.said()

    def handle(self, event: AnyEvent) -> list[AnyInstruction]:
        """Take one event in; returns what to tell whom."""
        self.seq += 1
        self.now = max(self.now, event.at)
        decided = self.over
        if event.rank < 0:
            self.interrupted = self.interrupted or isinstance(event, Interrupted)
        elif decided:
            self._after_the_end(event)
        else:
            self._hear(event)
        if not decided and not (self.diagnosis or self.interrupted or self.broke):
            self._judge(event)
            if not self.over:
                self.fill_slots()
        if self.over and not self._killed:
            self._killed = True
            for rank in self.ranks.values():
                if rank.alive:
                    self.say(Kill, rank.rank)
        return self.said()

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
            self.say(Kill, event.rank)
        if isinstance(event, Exited) and self.ranks[event.rank].alive:
            rank = self.ranks[event.rank]
            rank.code = event.code if rank.code is None else rank.code
            self.move(rank, Trigger.EXITED)

    def _launched(self, rank: Rank, event: Launched) -> None:
        self.move(rank, Trigger.LAUNCHED)

    def _joined(self, rank: Rank, event: Joined) -> None:
        self.move(rank, Trigger.SPEAK)
        self.exchange.join(event)

    def _posted(self, rank: Rank, event: Posted) -> None:
        self.move(rank, Trigger.SPEAK)
        rank.open[event.handle] = event
        self._follow(self.exchange.post(event))

    def _waited(self, rank: Rank, event: Waited) -> None:
        self.exchange.wait(event)
        rank.waits = event.handles
        rank.awaits = rank.unfinished(event.handles) if event.blocks else ()
        if rank.awaits:
            self.move(rank, Trigger.BLOCK)
        else:
            self.move(rank, Trigger.SPEAK)
            if event.blocks:
                self.say(Run, rank.rank)

    def _polled(self, rank: Rank, event: Polled) -> None:
        self._yield(rank, event.handle)

    def _yield(self, rank: Rank, handle: int) -> None:
        """A poll that failed: others first."""
        if rank.polled != handle or not rank.polls:
            rank.polled, rank.polls, rank.polls_since = handle, 0, self.now
        rank.polls += 1
        self.move(rank, Trigger.YIELD)

    def _asked(self, rank: Rank, event: Asked) -> None:
        reply = self.exchange.ask(event)
        if not event.main:
            self.move(rank, Trigger.SPEAK)
            if reply is None:
                self._side_asks.append(event)
            else:
                self.answer(rank.rank, event.number, reply)
        elif reply is None:
            rank.polls = 0
            rank.asks, rank.call = event.request, event.number
            self.move(rank, Trigger.BLOCK)
        elif event.request.action == "check" and not reply.present:
            rank.reply, rank.call = reply, event.number
            self._yield(rank, 0)
        else:
            rank.polls = 0
            self.move(rank, Trigger.SPEAK)
            self.answer(rank.rank, event.number, reply)
        if event.request.action in SETS:
            self._ask_again()

    def _marked(self, rank: Rank, event: Marked) -> None:
        self.move(rank, Trigger.SPEAK)
        rank.iterations += 1
        self.exchange.mark(event)

    def _folded(self, rank: Rank, event: Folded) -> None:
        self.move(rank, Trigger.WORK)
        if self.ledger.close("fold", rank.rank, event.op):
            del self._folds[event.op]
            self._follow(self.exchange.folded(event))
        if rank.state is State.FINISHING and not self.busy(rank):
            self.say(Leave, rank.rank)

    def _delivered(self, rank: Rank, event: Delivered) -> None:
        self.move(rank, Trigger.WORK)
        self.ledger.close("deliver", rank.rank, event.handle)
        self._release(self._loans.read(rank.rank, event.handle))

    def _completed(self, rank: Rank, event: Completed) -> None:
        self.move(rank, Trigger.WORK)
        del rank.open[event.handle]

    def _noticed(self, rank: Rank, event: Noticed) -> None:
        self.move(rank, Trigger.SPEAK)
        self.exchange.warnings.add(event.kind, event.summary, rank.rank)

    def _broke(self, rank: Rank, event: Broke) -> None:
        self.broke = f"rank {rank.rank}: {event.reason}"

    def _raised(self, rank: Rank, event: Raised) -> None:
        self.move(rank, Trigger.RAISED)
        rank.error, rank.traceback = event.error, event.traceback
        rank.peak_bytes, rank.peak_breakdown = event.peak_bytes, event.peak_breakdown
        self.failed.setdefault(rank.rank, self.now)

    def _finished(self, rank: Rank, event: Finished) -> None:
        self.move(rank, Trigger.FINISHED)
        rank.code, rank.cut = event.code, event.cut
        rank.peak_bytes, rank.peak_breakdown = event.peak_bytes, event.peak_breakdown
        if event.code:
            self.failed.setdefault(rank.rank, self.now)
        self.exchange.finish(event)
        if not self.busy(rank):
            self.say(Leave, rank.rank)

    def _exited(self, rank: Rank, event: Exited) -> None:
        self.move(rank, Trigger.EXITED)
        finished = rank.code is not None
        rank.code = rank.code if finished else event.code
        if not finished and not (event.code == 0 and not rank.error):
            self.failed.setdefault(rank.rank, self.now)
        orphans = self.ledger.of("fold", rank.rank)
        self.ledger.cancel(rank.rank)
        self._release(self._loans.gone(rank.rank))
        for number in orphans:
            due = self._folds[number]
            heir = next((r for r in due.op.members if self.ranks[r].alive), None)
            if heir is not None:
                self._fold(due, heir)

    # -- deciding ----------------------------------------------------------------------------------------------------

    def _follow(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            match outcome:
                case Done():
                    self._done(self.ranks[outcome.rank], outcome)
                case FoldDue(rank=number):
                    self._fold(outcome, number)
                case Spent(rank=number, payload=payload):
                    self._release([(number, payload)])
                case Lent(rank=number, payload=payload, readers=readers):
                    alive = [reader for reader in readers if self.ranks[reader[0]].alive]
                    self._release(self._loans.lend(number, payload, alive))

    def _done(self, rank: Rank, done: Done) -> None:
        del rank.open[done.handle]
        if not rank.alive:
            return
        self.ledger.open("deliver", rank.rank, done.handle)
        self.say(
            Deliver, rank.rank, handle=done.handle, result=done.result, blocks=done.blocks, source=done.source,
            synthesised=done.synthesised,
        )  # fmt: skip
        if rank.awaits:
            rank.awaits = rank.unfinished(rank.awaits)
            if not rank.awaits and rank.state is State.BLOCKED:
                self.move(rank, Trigger.UNBLOCK)

    def _release(self, spent: list[tuple[int, Ref]]) -> None:
        """Tell ranks which of their bytes nobody needs."""
        for rank, payload in spent:
            if self.ranks[rank].alive:
                self.say(Release, rank, payload=payload)

    def _fold(self, due: FoldDue, rank: int) -> None:
        """Let `rank` do the sum."""
        op, call = due.op, due.op.call
        splits = op.splits() if call.kind in (OpKind.ALL_TO_ALL, OpKind.REDUCE_SCATTER) else ()
        inputs = tuple(op.posts[member].payload for member in range(len(op.members)))
        self._folds[op.number] = due
        self.ledger.open("fold", rank, op.number)
        self.say(
            Fold, rank, op=op.number, kind=call.kind, dtype=call.dtype, reduce=call.reduce, root=call.root,
            inputs=inputs, splits=splits, parts=due.parts,
        )  # fmt: skip

    def _ask_again(self) -> None:
        """The store changed: whoever waits for a key asks once more."""
        for rank in self.ranks.values():
            if rank.asks is not None and rank.state is State.BLOCKED:
                reply = self.exchange.ask(Asked(rank=rank.rank, at=self.now, request=rank.asks))
                if reply is not None:
                    rank.asks, rank.reply = None, reply
                    self.move(rank, Trigger.UNBLOCK)
        waiting, self._side_asks = self._side_asks, []
        for event in waiting:
            reply = self.exchange.ask(event)
            if reply is None:
                self._side_asks.append(event)
            elif self.ranks[event.rank].alive:
                self.answer(event.rank, event.number, reply)

    def _judge(self, event: AnyEvent) -> None:
        """End the run if it cannot go well; looked at now and then, for it looks at all ranks."""
        if self.troubled is None and (self.failed or self.exchange.broken):
            self.troubled = self.now
        if isinstance(event, Ticked):
            self.look_at_the_silent()
        if isinstance(event, Ticked | Exited) or not self.acting or self.troubled is not None:
            self.diagnosis = verdict.inevitable(self)


_HANDLERS: dict[type[Event], Callable[[World, Rank, Any], None]] = {
    Launched: World._launched,
    Joined: World._joined,
    Posted: World._posted,
    Waited: World._waited,
    Polled: World._polled,
    Asked: World._asked,
    Marked: World._marked,
    Folded: World._folded,
    Delivered: World._delivered,
    Completed: World._completed,
    Probed: World.on_probed,
    Suspended: World.on_suspended,
    Noticed: World._noticed,
    Raised: World._raised,
    Broke: World._broke,
    Finished: World._finished,
    Exited: World._exited,
}
