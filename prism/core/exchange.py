"""Where the world's operations get their answers: from the other ranks while capturing, from the record afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from prism.core.events import Asked, Folded, Joined, Marked, Posted, Ref, Waited
from prism.core.graph import ITEMSIZE
from prism.core.matching import SELF_CONTAINED, CommGroup, Matcher, Op
from prism.core.record import MarkStep, PostStep, RankRecord, WaitStep
from prism.core.store import Reply, Store


@dataclass(frozen=True)
class Done:
    """An operation is over for a rank; `result` is what it has to copy."""

    rank: int
    handle: int
    result: Ref | None


@dataclass(frozen=True)
class FoldDue:
    """All members have posted; `rank` came last and shall do the arithmetic."""

    op: Op
    rank: int


@dataclass(frozen=True)
class Spent:
    """A rank's input has been folded; its bytes may be used again."""

    rank: int
    payload: Ref


Outcome = Done | FoldDue | Spent


class Exchange(Protocol):
    """What the world needs of either kind; each method may raise Diverged."""

    @property
    def broken(self) -> Op | None:
        """An operation whose members disagree."""

    def join(self, event: Joined) -> None:
        """A rank made a process group."""

    def post(self, event: Posted) -> list[Outcome]:
        """A rank posted; what follows from it."""

    def folded(self, event: Folded) -> list[Outcome]:
        """The arithmetic of an operation is done; what follows from it."""

    def wait(self, event: Waited) -> None:
        """A rank waits."""

    def mark(self, event: Marked) -> None:
        """An iteration of a rank ended."""

    def ask(self, event: Asked) -> Reply | None:
        """The store's reply, or None while a key is missing."""

    def find(self, rank: int, handle: int) -> Op | None:
        """The operation a post belongs to; None for a message whose other side is not there."""

    def members(self, rank: int, group: str) -> tuple[int, ...]:
        """The global ranks of a group as the rank knows it."""

    def last_common(self, group: CommGroup) -> Op | None:
        """The last collective of the group that all its members have posted."""


class Capture:
    """The ranks answer each other; all they do is recorded."""

    def __init__(self, ranks: range) -> None:
        self.matcher = Matcher()
        self.store = Store()
        self.records = [RankRecord(rank) for rank in ranks]
        self._steps: dict[tuple[int, int], PostStep] = {}
        self._ops: dict[tuple[int, int], Op] = {}

    @property
    def broken(self) -> Op | None:
        return self.matcher.broken

    def find(self, rank: int, handle: int) -> Op | None:
        return self._ops.get((rank, handle))

    def members(self, rank: int, group: str) -> tuple[int, ...]:
        return self.matcher.of(rank, group).ranks

    def last_common(self, group: CommGroup) -> Op | None:
        return self.matcher.last_common(group)

    def join(self, event: Joined) -> None:
        self.matcher.join(event.rank, event.group, event.ranks, event.backend)

    def post(self, event: Posted) -> list[Outcome]:
        step = PostStep(event.group, event.handle, event.call, event.site)
        self.records[event.rank].steps.append(step)
        self._steps[event.rank, event.handle] = step
        op = self.matcher.post(event)
        if op is None:
            return []
        self._ops[event.rank, event.handle] = op
        if not op.ready:
            return []
        if op.call.kind not in SELF_CONTAINED:
            return [FoldDue(op, event.rank)]
        source = op.posts[max(op.call.root, 0)].payload
        return self._finish(op, () if source is None else (source,))

    def folded(self, event: Folded) -> list[Outcome]:
        op = self.matcher.ops[event.op]
        spent = [Spent(p.rank, p.payload) for p in op.posts.values() if p.payload is not None]
        return [*self._finish(op, event.results), *spent]

    def wait(self, event: Waited) -> None:
        self.records[event.rank].steps.append(WaitStep(event.handles, event.site))

    def mark(self, event: Marked) -> None:
        self.records[event.rank].steps.append(MarkStep())

    def ask(self, event: Asked) -> Reply | None:
        reply = self.store.ask(event.request)
        if reply is not None:
            self.records[event.rank].replies.append(reply)
        return reply

    def _finish(self, op: Op, results: tuple[Ref, ...]) -> list[Outcome]:
        op.results, op.done = results, True
        outcomes: list[Outcome] = []
        for member in sorted(op.posts):
            post = op.posts[member]
            result = op.result(member, ITEMSIZE[op.call.dtype])
            self._steps.pop((post.rank, post.handle)).result = result
            self._ops.pop((post.rank, post.handle), None)
            outcomes.append(Done(post.rank, post.handle, result))
        return outcomes
