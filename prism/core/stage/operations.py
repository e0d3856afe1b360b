"""Operations: what ranks post and wait for, who does the sums, and who is given what comes of them."""

from __future__ import annotations

from collections.abc import Iterable

from prism.core.calls import Ref
from prism.core.events import Completed, Delivered, Folded, Posted, Staged, Waited
from prism.core.graph import OpKind
from prism.core.instructions import Fold, Leave, Run
from prism.core.stage.exchange import Done, FoldDue, Lent, Outcome, Spent
from prism.core.stage.ranks import Rank
from prism.core.stage.states import State, Trigger
from prism.core.stage.turns import Turns


class Operations(Turns):
    """Turns in which ranks post operations, which the exchange answers."""

    # -- what ranks do -----------------------------------------------------------------------------------------------

    def on_posted(self, rank: Rank, event: Posted) -> None:
        """A rank posted its side of an operation."""
        self.move(rank, Trigger.SPEAK)
        rank.open[event.handle] = event
        if not event.staged:
            self.ledger.open("stage", rank.rank, event.handle)
        self._follow(self.exchange.post(event))

    def on_staged(self, rank: Rank, event: Staged) -> None:
        """The input of an operation that was posted before is there."""
        self.move(rank, Trigger.WORK)
        if self.ledger.close("stage", rank.rank, event.handle):
            self._follow(self.exchange.staged(event))
        self.let_go(rank)

    def on_waited(self, rank: Rank, event: Waited) -> None:
        """A rank waits for operations."""
        if not event.beside:
            self.exchange.wait(event)
        rank.waits = event.handles
        rank.awaits = rank.unfinished(event.handles) if event.blocks else ()
        if rank.awaits:
            self.move(rank, Trigger.BLOCK)
        else:
            self.move(rank, Trigger.SPEAK)
            if event.blocks:
                self.say(Run, rank.rank)

    def on_folded(self, rank: Rank, event: Folded) -> None:
        """A rank did a sum."""
        self.move(rank, Trigger.WORK)
        if self.ledger.close("fold", rank.rank, event.op):
            del self.folds[event.op]
            self._follow(self.exchange.folded(event))
        self.let_go(rank)

    def on_delivered(self, rank: Rank, event: Delivered) -> None:
        """A rank has the result that it was given."""
        self.move(rank, Trigger.WORK)
        self.ledger.close("deliver", rank.rank, event.handle)
        self._release(self.loans.read(rank.rank, event.handle))

    def on_completed(self, rank: Rank, event: Completed) -> None:
        """A rank has a result of its own."""
        self.move(rank, Trigger.WORK)
        del rank.open[event.handle]

    # -- what follows ------------------------------------------------------------------------------------------------

    def let_go(self, rank: Rank) -> None:
        """Let a rank whose program is over exit, once nobody needs it any more."""
        if rank.state is State.FINISHING and not self.busy(rank):
            self.say(Leave, rank.rank)

    def hand_on(self, rank: Rank) -> None:
        """A rank is gone: it reads nothing any more, and the sums that it was to do are another member's."""
        orphans = self.ledger.of("fold", rank.rank)
        self.ledger.cancel(rank.rank)
        self._release(self.loans.gone(rank.rank))
        for number in orphans:
            due = self.folds[number]
            members = (due.op.posts[member].rank for member in sorted(due.op.posts))
            heir = next((member for member in members if self.ranks[member].alive), None)
            if heir is not None:
                self._fold(due, heir)

    def _follow(self, outcomes: Iterable[Outcome]) -> None:
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
                    self._release(self.loans.lend(number, payload, alive))

    def _done(self, rank: Rank, done: Done) -> None:
        posted = rank.open.pop(done.handle)
        if not rank.alive or posted.settled:
            return
        if rank.awaits:
            rank.awaits = rank.unfinished(rank.awaits)
            if not rank.awaits and rank.state is State.BLOCKED:
                self.move(rank, Trigger.UNBLOCK)
        self.deliver(
            rank, handle=done.handle, result=done.result, blocks=done.blocks, source=done.source,
            synthesised=done.synthesised,
        )  # fmt: skip

    def _release(self, spent: Iterable[tuple[int, Ref]]) -> None:
        """Tell ranks which of their bytes nobody needs."""
        for rank, payload in spent:
            if self.ranks[rank].alive:
                self.spend(rank, payload)

    def _fold(self, due: FoldDue, rank: int) -> None:
        """Let `rank` do the sum."""
        op, call = due.op, due.op.call
        routes = op.routes()
        splits = op.splits() if not routes and call.kind in (OpKind.ALL_TO_ALL, OpKind.REDUCE_SCATTER) else ()
        inputs = () if routes else op.inputs()
        self.folds[op.number] = due
        self.ledger.open("fold", rank, op.number)
        self.say(
            Fold, rank, op=op.number, kind=call.kind, dtype=call.dtype, reduce=call.reduce, root=call.root,
            inputs=inputs, splits=splits, parts=due.parts, routes=routes,
        )  # fmt: skip
