"""The world: all logical ranks, what they wait for, and what to tell them next.

One mutator, `handle(event) -> instructions`, and nothing else changes state. The world knows no clock but the `at` of
the events, no process and no socket; a recorded list of events gives the same instructions every time. What can be
seen of it is in prism.core.stage.situation, whose turn it is in prism.core.stage.turns, when it cannot go well in
prism.core.stage.verdict, what follows from operations in prism.core.stage.operations, and what they give in the
exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prism.core.events import (
    AnyEvent,
    Asked,
    Broke,
    Clocked,
    Completed,
    Delivered,
    Event,
    Exited,
    Finished,
    Folded,
    Interrupted,
    Joined,
    Launched,
    Marked,
    Noticed,
    PagedIn,
    PagedOut,
    Polled,
    Posted,
    Pressed,
    Probed,
    Raised,
    Spilled,
    Staged,
    Suspended,
    Ticked,
    Timed,
    Waited,
    Weighed,
)
from prism.core.instructions import AnyInstruction, Kill
from prism.core.stage import verdict
from prism.core.stage.admission import UNBOUNDED, HostMemory
from prism.core.stage.answers import Diverged
from prism.core.stage.asking import Asking
from prism.core.stage.exchange import Exchange
from prism.core.stage.ranks import Rank
from prism.core.stage.states import Trigger

MANY = 128
"""Ranks that can all be looked at once a tick; of twice as many, every second tick or exit, and so on."""


class World(Asking):
    """One stage: `ranks` run on `slots` slots of each of their `hosts`, and `exchange` answers what they post."""

    def __init__(
        self,
        ranks: Sequence[int],
        slots: int,
        exchange: Exchange,
        hang_after: int,
        preempt: bool = True,
        memory: HostMemory = UNBOUNDED,
        hosts: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(ranks, slots, exchange, hang_after, preempt, memory, hosts)
        self._killed = False
        self._unseen = 0  # ticks and exits since all ranks were looked at

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
        if not isinstance(event, Probed | Suspended | Spilled):
            rank.idle_probes, self.heard = 0, event.at
        if not isinstance(event, Probed | Suspended | Spilled | Delivered | Polled | Asked):
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

    def _marked(self, rank: Rank, event: Marked) -> None:
        self.move(rank, Trigger.SPEAK)
        rank.iterations += 1
        self.exchange.mark(event)

    def _timed(self, rank: Rank, event: Timed) -> None:
        self.move(rank, Trigger.WORK)
        self.exchange.timed(event)

    def _clocked(self, rank: Rank, event: Clocked) -> None:
        self.move(rank, Trigger.WORK)
        self.exchange.clocked(event)

    def _noticed(self, rank: Rank, event: Noticed) -> None:
        self.move(rank, Trigger.SPEAK)
        self.exchange.warnings.add(event.kind, event.summary, rank.rank)

    def _broke(self, rank: Rank, event: Broke) -> None:
        self.broke = f"rank {rank.rank}: {event.reason}"

    def _raised(self, rank: Rank, event: Raised) -> None:
        self.move(rank, Trigger.RAISED)
        rank.error, rank.traceback, rank.snapshot = event.error, event.traceback, event.snapshot
        rank.peak_bytes, rank.peak_breakdown = event.peak_bytes, event.peak_breakdown
        rank.reserved_bytes = event.reserved_bytes
        self.failed.setdefault(rank.rank, self.now)

    def _finished(self, rank: Rank, event: Finished) -> None:
        self.move(rank, Trigger.FINISHED)
        rank.code, rank.cut, rank.said = event.code, event.cut, event.said
        rank.ran, rank.queued = event.ran, event.queued
        rank.peak_bytes, rank.peak_breakdown = event.peak_bytes, event.peak_breakdown
        rank.reserved_bytes = event.reserved_bytes
        if event.code:
            self.failed.setdefault(rank.rank, self.now)
        self.exchange.finish(event)
        self.let_go(rank)

    def _exited(self, rank: Rank, event: Exited) -> None:
        self.move(rank, Trigger.EXITED)
        finished = rank.code is not None
        rank.code = rank.code if finished else event.code
        if not finished and (event.code or rank.error or not self.exchange.complete(event.rank)):
            self.failed.setdefault(rank.rank, self.now)
        self.hand_on(rank)

    # -- deciding ----------------------------------------------------------------------------------------------------

    def _judge(self, event: AnyEvent) -> None:
        """End the run if it cannot go well; looked at now and then, for it looks at all ranks."""
        if self.troubled is None and (self.failed or self.exchange.broken):
            self.troubled = self.now
        if isinstance(event, Ticked):
            self.look_at_the_silent()
        due = isinstance(event, Ticked | Exited) and self._look_is_due()
        if due or not self.acting or self.troubled is not None:
            self.diagnosis = verdict.inevitable(self)

    def _look_is_due(self) -> bool:
        """Whether to look at all ranks at this tick or exit: the more there are, the more rarely."""
        self._unseen += 1
        if self._unseen <= len(self.ranks) // MANY:
            return False
        self._unseen = 0
        return True


_HANDLERS: dict[type[Event], Callable[[World, Rank, Any], None]] = {
    Launched: World._launched,
    Joined: World._joined,
    Posted: World.on_posted,
    Staged: World.on_staged,
    Waited: World.on_waited,
    Polled: World.on_polled,
    Asked: World.on_asked,
    Marked: World._marked,
    Timed: World._timed,
    Clocked: World._clocked,
    Folded: World.on_folded,
    Delivered: World.on_delivered,
    Completed: World.on_completed,
    Probed: World.on_probed,
    Suspended: World.on_suspended,
    Weighed: World.on_weighed,
    Spilled: World.on_spilled,
    Pressed: World.on_paged,
    PagedOut: World.on_paged,
    PagedIn: World.on_paged,
    Noticed: World._noticed,
    Raised: World._raised,
    Broke: World._broke,
    Finished: World._finished,
    Exited: World._exited,
}
