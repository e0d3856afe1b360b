"""Where the world's operations get their answers: from the other ranks while capturing, from the record afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from prism.core.contribution import Part
from prism.core.events import Asked, Finished, Folded, Joined, Marked, Posted, Ref, Reply, StoreCall, Waited
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.record import MarkStep, PostStep, RankRecord, WaitStep
from prism.core.semantics import LARGE_BATCH, rules
from prism.core.stage.keeping import Keeping
from prism.core.stage.kept import EVERYTHING, Kept, PayloadCount
from prism.core.stage.matching import SELF_CONTAINED, CommGroup, Matcher, Op
from prism.core.stage.ordering import crossed_operations
from prism.core.stage.store import Store
from prism.core.stage.warnings import Warnings


@dataclass(frozen=True)
class Done:
    """An operation is over for a rank; `result` is what it has to copy, in `blocks` where they are short.

    `source` is the group rank of a message's sender; `synthesised`: the result was not kept, one is to be made up.
    """

    rank: int
    handle: int
    result: Ref | None
    blocks: tuple[int, ...] = ()
    source: int = -1
    synthesised: bool = False


@dataclass(frozen=True)
class FoldDue:
    """All members have posted; `rank` came last and shall do the arithmetic, and keep some partial sums too."""

    op: Op
    rank: int
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Spent:
    """A rank's input has been folded; its bytes may be used again."""

    rank: int
    payload: Ref


@dataclass(frozen=True)
class Lent:
    """A rank's bytes hold a result that nobody keeps: free once the readers, each a rank and a handle, have it."""

    rank: int
    payload: Ref
    readers: tuple[tuple[int, int], ...]


MOST_TOLD = 8
"""How many operations of a cycle a warning tells."""

Outcome = Done | FoldDue | Spent | Lent


class Exchange(Protocol):
    """What the world needs of either kind; each method may raise Diverged."""

    @property
    def broken(self) -> Op | None:
        """An operation whose members disagree."""

    @property
    def warnings(self) -> Warnings:
        """What passed and may not elsewhere."""

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

    def finish(self, event: Finished) -> None:
        """The program of a rank is over."""

    def ask(self, event: Asked) -> Reply | None:
        """The store's reply, or None while a key is missing."""

    def missing(self, request: StoreCall) -> list[str]:
        """The keys that a call of the store waits for."""

    def find(self, rank: int, handle: int) -> Op | None:
        """The operation a post belongs to; None for a message whose other side is not there."""

    def members(self, rank: int, group: str) -> tuple[int, ...]:
        """The global ranks of a group as the rank knows it."""

    def last_common(self, group: CommGroup) -> Op | None:
        """The last collective of the group that all its members have posted."""


class Capture:
    """The ranks answer each other; all they do is recorded, and of what they get as much as `kept` says."""

    def __init__(self, ranks: range, kept: Kept = EVERYTHING) -> None:
        self.matcher = Matcher()
        self.store = Store()
        self.records = [RankRecord(rank) for rank in ranks]
        self._keeping = Keeping(kept)
        self._steps: dict[tuple[int, int], PostStep] = {}
        self._ops: dict[tuple[int, int], Op] = {}
        self._batches: dict[tuple[int, int], int] = {}  # (rank, batch) -> messages
        self._messages: dict[tuple[int, int], str] = {}  # messages that bear one wait -> group, "" once waited for

    @property
    def broken(self) -> Op | None:
        return self.matcher.broken

    @property
    def warnings(self) -> Warnings:
        return self.matcher.warnings

    @property
    def payloads(self) -> PayloadCount:
        """How much of the results the record keeps."""
        return self._keeping.count

    def find(self, rank: int, handle: int) -> Op | None:
        return self._ops.get((rank, handle))

    def missing(self, request: StoreCall) -> list[str]:
        return self.store.missing(request)

    def members(self, rank: int, group: str) -> tuple[int, ...]:
        return self.matcher.of(rank, group).ranks

    def last_common(self, group: CommGroup) -> Op | None:
        return self.matcher.last_common(group)

    def join(self, event: Joined) -> None:
        self.matcher.join(event.rank, event.group, event.ranks, event.backend)

    def post(self, event: Posted) -> list[Outcome]:
        step = PostStep(event.group, event.handle, event.call, event.site, batch=event.batch)
        if event.batch:
            self._watch_batch(event)
        self.records[event.rank].steps.append(step)
        self._steps[event.rank, event.handle] = step
        group = self.matcher.of(event.rank, event.group)
        if event.call.kind is OpKind.SEND_RECV and rules(group.backend).wait_once:
            self._messages[event.rank, event.handle] = group.name
        op = self.matcher.post(event)
        if op is None:
            return []
        self._ops[event.rank, event.handle] = op
        if not op.ready:
            return []
        if op.call.kind not in SELF_CONTAINED:
            return [FoldDue(op, event.rank, self._keeping.parts(op))]
        source = op.posts[max(op.call.root, 0)]
        return self._finish(op, source.rank, () if source.payload is None else (source.payload,))

    def folded(self, event: Folded) -> list[Outcome]:
        op = self.matcher.ops[event.op]
        spent = [Spent(p.rank, p.payload) for p in op.posts.values() if p.payload is not None]
        return [*self._finish(op, event.rank, event.results, event.parts), *spent]

    def wait(self, event: Waited) -> None:
        self.records[event.rank].steps.append(WaitStep(event.handles, event.site))
        for handle in event.handles:
            self._watch_wait(event.rank, handle, event.site)

    def mark(self, event: Marked) -> None:
        self.records[event.rank].steps.append(MarkStep())

    def finish(self, event: Finished) -> None:
        """What a rank leaves open is told when all ranks are through."""

    def ask(self, event: Asked) -> Reply | None:
        reply = self.store.ask(event.request)
        if reply is not None:
            self.records[event.rank].replies.append((event.request, reply))
        return reply

    def conclude(self) -> None:
        """Look over what the ranks did once all of them are through, for warnings that only the whole shows."""
        for (rank, _), step in self._steps.items():
            text = f"{step.call.name} on group {step.group}, posted at {step.site or '?'}, never completed"
            self.warnings.add("pending_at_destroy", text, rank)
        crossed = crossed_operations(self.records, self.matcher)
        if crossed:
            told = "; then ".join(
                f"{op.call.name} of group {op.group.name} at {_site(op)}" for op in crossed[:MOST_TOLD]
            )
            told += f"; and {len(crossed) - MOST_TOLD} more" if len(crossed) > MOST_TOLD else ""
            ranks = sorted({rank for op in crossed for rank in op.members})
            self.warnings.add(
                "unsafe_order",
                f"ranks post these in orders that contradict each other, which NCCL may hang on: {told}",
                *ranks,
            )

    def _finish(self, op: Op, maker: int, results: tuple[Ref, ...], sums: tuple[Ref, ...] = ()) -> list[Outcome]:
        op.results, op.done = results, True
        posts = [op.posts[member] for member in sorted(op.posts)]
        steps = [self._steps.pop((post.rank, post.handle)) for post in posts]
        dropped = self._keeping.note(op, steps, sums)
        done: list[Done] = []
        for member, (post, step) in enumerate(zip(posts, steps, strict=True)):
            step.blocks = op.blocks(member, ITEMSIZE[op.call.dtype])
            step.source = op.channel[0] if op.channel and not post.call.sends else -1
            self._ops.pop((post.rank, post.handle), None)
            result = op.result(member, ITEMSIZE[op.call.dtype])
            done.append(Done(post.rank, post.handle, result, step.blocks, step.source))
        readers = tuple((one.rank, one.handle) for one in done if one.result is not None)
        return [*done, *(Lent(maker, ref, readers) for ref in dropped)]

    def _watch_batch(self, event: Posted) -> None:
        """Warn of batches of messages that are too large for NCCL to plan alike everywhere."""
        size = self._batches[event.rank, event.batch] = self._batches.get((event.rank, event.batch), 0) + 1
        group = self.matcher.of(event.rank, event.group)
        if size == LARGE_BATCH + 1 and rules(group.backend).one_work and event.call.kind is OpKind.SEND_RECV:
            self.warnings.add(
                "large_batch",
                f"one batch at {event.site or '?'} has more than {LARGE_BATCH} messages of a rank: {group.backend} may "
                "plan them differently on different ranks and hang; make several batches",
                event.rank,
            )

    def _watch_wait(self, rank: int, handle: int, site: str) -> None:
        """Warn of a second wait on a message where it would never return."""
        group = self._messages.get((rank, handle))
        if group is None:
            return
        if group:
            self._messages[rank, handle] = ""  # waited for once
            return
        self.warnings.add("double_wait", f"a message is waited for twice at {site or '?'}: on gloo that hangs", rank)


def _site(op: Op) -> str:
    """Where the first member that says so posted it."""
    return next((post.site for post in op.posts.values() if post.site), "?")
