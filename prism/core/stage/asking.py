"""Asking: what ranks ask and what they do until there is an answer; of the store, and whether an operation is done."""

from __future__ import annotations

from collections.abc import Sequence

from prism.core.events import Asked, Polled
from prism.core.stage.operations import Operations
from prism.core.stage.ranks import Rank
from prism.core.stage.states import Trigger
from prism.core.stage.store import SETS


class Asking(Operations):
    """Operations, and a store that ranks ask; its answers are the exchange's."""

    def on_polled(self, rank: Rank, event: Polled) -> None:
        """An operation that a rank asked for is not done."""
        self._yield(rank, event.handle)

    def on_asked(self, rank: Rank, event: Asked) -> None:
        """A rank called the store; one that has to wait gives up its slot, unless another thread of it called."""
        reply = self.exchange.ask(event)
        if not event.main:
            self.move(rank, Trigger.SPEAK)
            if reply is None:
                self.askers.add(event)
            else:
                self.answer(rank.rank, event.number, reply)
        elif reply is None:
            rank.polls = 0
            rank.asks, rank.call = event.request, event.number
            self.askers.add(event)
            self.move(rank, Trigger.BLOCK)
        elif event.request.action == "check" and not reply.present:
            rank.reply, rank.call = reply, event.number
            self._yield(rank, 0)
        else:
            rank.polls = 0
            self.move(rank, Trigger.SPEAK)
            self.answer(rank.rank, event.number, reply)
        if event.request.action in SETS:
            self._ask_again(event.request.keys)

    def _yield(self, rank: Rank, handle: int) -> None:
        """A poll that failed: others first."""
        if rank.polled != handle or not rank.polls:
            rank.polled, rank.polls, rank.polls_since = handle, 0, self.now
        rank.polls += 1
        self.move(rank, Trigger.YIELD)

    def _ask_again(self, keys: Sequence[str]) -> None:
        """Keys were set: whoever waits for one of them asks once more."""
        for call in self.askers.of(keys):
            rank = self.ranks[call.rank]
            reply = self.exchange.ask(call) if rank.alive else None
            if reply is None and rank.alive:
                continue
            self.askers.drop(call)
            if reply is not None and call.main:
                rank.asks, rank.reply = None, reply
                self.move(rank, Trigger.UNBLOCK)
            elif reply is not None:
                self.answer(call.rank, call.number, reply)
