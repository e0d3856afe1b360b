"""Answering ranks from the record: each runs alone at full speed, and its compute segments are timed."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from prism.core.events import Asked, Folded, Joined, Marked, Posted, StoreCall, Waited
from prism.core.exchange import Done, Outcome
from prism.core.matching import CommGroup, Op
from prism.core.record import MarkStep, PostStep, RankRecord, Step, WaitStep
from prism.core.store import Reply
from prism.core.warnings import Warnings


class Diverged(Exception):
    """A rank did something else than what was recorded of it."""

    def __init__(self, rank: int, recorded: Step | None, now: str) -> None:
        was = recorded.told() if recorded else "nothing more"
        super().__init__(f"rank {rank} does not repeat what was captured: then {was}; now {now}")
        self.rank = rank


@dataclass
class _Walk:
    """How far a rank has come in its record, and how long each segment took (ns, one a step)."""

    record: RankRecord
    step: int = 0
    durations: list[int] = field(default_factory=list)
    replies: dict[StoreCall, deque[Reply]] = field(default_factory=lambda: defaultdict(deque))

    def __post_init__(self) -> None:
        for request, reply in self.record.replies:
            self.replies[request].append(reply)


class Answers:
    """Every operation is done as soon as it is posted, with the result that the record holds."""

    def __init__(self, records: Iterable[RankRecord]) -> None:
        self.warnings = Warnings()
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

    def last_common(self, group: CommGroup) -> Op | None:
        """Nothing is in common: each rank runs alone."""

    def durations(self, rank: int) -> list[int]:
        """The measured compute segment before each step of the rank, in ns; shorter if the rank did not finish."""
        return self._walks[rank].durations

    def complete(self, rank: int) -> bool:
        """Whether the rank has repeated all its steps."""
        walk = self._walks[rank]
        return walk.step == len(walk.record.steps)

    def join(self, event: Joined) -> None:
        """Groups are known from the record."""

    def post(self, event: Posted) -> list[Outcome]:
        step = PostStep(event.group, event.handle, event.call, event.site)
        recorded = self._next(event.rank, step, event.compute)
        if not isinstance(recorded, PostStep) or (recorded.group, recorded.call) != (step.group, step.call):
            raise Diverged(event.rank, recorded, step.told())
        return [Done(event.rank, event.handle, recorded.result, recorded.blocks, recorded.source)]

    def folded(self, event: Folded) -> list[Outcome]:
        raise AssertionError(f"nothing is folded while answering from the record, yet rank {event.rank} folded")

    def wait(self, event: Waited) -> None:
        step = WaitStep(event.handles, event.site)
        recorded = self._next(event.rank, step, event.compute)
        if not isinstance(recorded, WaitStep) or recorded.handles != step.handles:
            raise Diverged(event.rank, recorded, step.told())

    def mark(self, event: Marked) -> None:
        recorded = self._next(event.rank, MarkStep(), event.compute)
        if not isinstance(recorded, MarkStep):
            raise Diverged(event.rank, recorded, MarkStep().told())

    def ask(self, event: Asked) -> Reply | None:
        walk = self._walks[event.rank]
        if not walk.replies[event.request]:
            keys = ", ".join(event.request.keys)
            raise Diverged(event.rank, None, f"{event.request.action} of store key {keys} at {event.site or '?'}")
        return walk.replies[event.request].popleft()

    def _next(self, rank: int, now: Step, compute: int) -> Step:
        walk = self._walks[rank]
        if walk.step == len(walk.record.steps):
            raise Diverged(rank, None, now.told())
        walk.durations.append(compute)
        walk.step += 1
        return walk.record.steps[walk.step - 1]
