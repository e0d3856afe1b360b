"""Answering ranks from the record: each runs alone at full speed, and its compute segments are timed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from prism.core.calls import Call, Reply, StoreCall
from prism.core.events import Asked, Clocked, Finished, Folded, Joined, Marked, Posted, Staged, Timed, Waited
from prism.core.graph import OpKind
from prism.core.measuring.segments import Segments
from prism.core.record import MarkStep, PostStep, RankRecord, Step, WaitStep
from prism.core.stage.exchange import Done, Outcome
from prism.core.stage.op import CommGroup, Op
from prism.core.stage.replies import Replies
from prism.core.stage.walk import Walk, step_of
from prism.core.stage.warnings import Warnings

LONGEST_TOLD = 60
"""Characters of what a call is given for each member."""


class Diverged(Exception):
    """A rank did something else than what was recorded of it; it `guesses` once a result has been made up for it."""

    def __init__(self, rank: int, recorded: Step | None, now: str, guesses: bool = False) -> None:
        was = recorded.told() if recorded else "nothing more"
        made_up = "results were made up before: what capture.payloads does not keep (keep all), on a GPU all large ones"
        hint = f"; {made_up}" if guesses else ""
        super().__init__(f"rank {rank} does not repeat what was captured: then {was}; now {now}{hint}")
        self.rank = rank


class _Walk(Walk):
    """How far a rank has come, and what of the store's replies it has not got yet."""

    def __init__(self, record: RankRecord) -> None:
        super().__init__(record)
        self.replies = Replies(record.replies)
        self.guesses = False  # it has got a result that was made up, and what it computes of that is another number

    def repeats(self, recorded: PostStep, now: PostStep, settled: bool) -> bool:
        """Whether the rank posts what was recorded; sizes may follow from numbers, and are others once it guesses.

        On a device, for which a post is settled, sums may come out in another order each time. So what they send where
        may be another number of elements before anything was made up.
        """
        if recorded.group != now.group:
            return False
        guesses = self.guesses or (settled and now.call.kind is OpKind.ALL_TO_ALL)
        return recorded.call == now.call or (guesses and _sized_as(recorded.call, now.call) == recorded.call)


class Answers:
    """Every operation is done as soon as it is posted, with the result that the record holds."""

    def __init__(self, records: Iterable[RankRecord]) -> None:
        self.warnings = Warnings()
        self.clocks: dict[int, Clocked] = {}  # by rank
        self._walks = {record.rank: _Walk(record) for record in records}

    broken: Op | None = None

    def find(self, rank: int, handle: int) -> Op | None:
        """Nothing is ever open: every post is answered at once."""

    def missing(self, request: StoreCall) -> list[str]:
        """Nobody waits for the store here."""
        return []

    def members(self, rank: int, group: str) -> tuple[int, ...]:
        """Nobody waits for members of a group here."""
        return ()

    def acting(self, rank: int) -> int:
        """Each acts for itself."""
        return rank

    def last_common(self, group: CommGroup) -> Op | None:
        """Nothing is in common: each rank runs alone."""

    def segments(self, rank: int) -> Segments:
        """The measured compute segments of the rank; fewer if it did not finish."""
        return self._walks[rank].segments

    def complete(self, rank: int) -> bool:
        """Whether the rank has repeated all its steps."""
        return self._walks[rank].complete

    def join(self, event: Joined) -> None:
        """Groups are known from the record."""

    def post(self, event: Posted) -> list[Outcome]:
        step = step_of(event)
        walk = self._walks[event.rank]
        recorded = self._next(event.rank, step, event.compute)
        if not isinstance(recorded, PostStep) or not walk.repeats(recorded, step, event.settled):
            raise self._diverged(event.rank, recorded, step.told() + _difference(recorded, step))
        if _is_made_up(recorded, event):
            walk.guesses = True
            return [Done(event.rank, event.handle, None, source=recorded.source, synthesised=True)]
        return [Done(event.rank, event.handle, recorded.result, recorded.blocks, recorded.source)]

    def staged(self, event: Staged) -> list[Outcome]:
        raise AssertionError(f"nothing is staged while answering from the record, yet rank {event.rank} has")

    def folded(self, event: Folded) -> list[Outcome]:
        raise AssertionError(f"nothing is folded while answering from the record, yet rank {event.rank} folded")

    def wait(self, event: Waited) -> None:
        step = WaitStep(event.handles, event.site)
        recorded = self._next(event.rank, step, event.compute)
        awaited = self._walks[event.rank].handles(step.handles)
        if not isinstance(recorded, WaitStep) or recorded.handles != awaited:
            raise self._diverged(event.rank, recorded, step.told())

    def mark(self, event: Marked) -> None:
        recorded = self._next(event.rank, MarkStep(), event.compute)
        if not isinstance(recorded, MarkStep):
            raise self._diverged(event.rank, recorded, MarkStep().told())

    def timed(self, event: Timed) -> None:
        self._walks[event.rank].timed(event)

    def clocked(self, event: Clocked) -> None:
        self.clocks[event.rank] = event

    def finish(self, event: Finished) -> None:
        """What a rank has left out shows in `complete`."""

    def ask(self, event: Asked) -> Reply | None:
        reply = self._walks[event.rank].replies.take(event.request)
        if reply is None:
            keys = ", ".join(event.request.keys)
            raise self._diverged(event.rank, None, f"{event.request.action} of store key {keys} at {event.site or '?'}")
        return reply

    def _diverged(self, rank: int, recorded: Step | None, now: str) -> Diverged:
        return Diverged(rank, recorded, now, self._walks[rank].guesses)

    def _next(self, rank: int, now: Step, compute: int) -> Step:
        if self.complete(rank):
            raise self._diverged(rank, None, now.told())
        return self._walks[rank].take(now, compute)


def _difference(recorded: Step, now: PostStep) -> str:
    """What is not the same in two calls that are told in the same words."""
    if not isinstance(recorded, PostStep) or recorded.told() != now.told():
        return ""
    for name in ("reduce", "root", "peer", "tag", "send", "recv", "shape"):
        was, is_now = getattr(recorded.call, name), getattr(now.call, name)
        if was != is_now:
            return f", but with {name} {_shortened(is_now)} and not {_shortened(was)}"
    return ""


def _shortened(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_TOLD else f"{text[:LONGEST_TOLD]}..."


def _is_made_up(recorded: PostStep, event: Posted) -> bool:
    """Whether the result that the rank gets is not the recorded one."""
    if recorded.result is None:
        return recorded.dropped > 0
    return event.settled or not _fits(recorded.call, event.call)


def _sized_as(recorded: Call, now: Call) -> Call:
    """The call with the sizes of the recorded one."""
    return msgspec.structs.replace(
        now, count=recorded.count, send=recorded.send, recv=recorded.recv, shape=recorded.shape
    )


def _fits(recorded: Call, now: Call) -> bool:
    """Whether a call awaits as many elements as the recorded one got."""
    return recorded.recv == now.recv and (bool(now.recv) or recorded.count == now.count)
