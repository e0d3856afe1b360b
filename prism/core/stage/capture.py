"""Capturing: the ranks answer each other, and all that they do is recorded."""

from __future__ import annotations

from collections.abc import Sequence

from prism.core.calls import Call, Ref, Reply, StoreCall
from prism.core.events import Asked, Clocked, Finished, Folded, Joined, Marked, Posted, Staged, Timed, Waited, share
from prism.core.graph import ITEMSIZE, Graph, OpKind
from prism.core.record import MarkStep, PostStep, RankRecord, WaitStep
from prism.core.semantics import LARGE_BATCH, rules
from prism.core.stage.building import build_graph
from prism.core.stage.exchange import Done, FoldDue, Lent, Outcome, Spent
from prism.core.stage.keeping import Keeping
from prism.core.stage.kept import EVERYTHING, Kept, PayloadCount
from prism.core.stage.matching import Matcher
from prism.core.stage.op import SELF_CONTAINED, CommGroup, Op
from prism.core.stage.ordering import crossed_operations
from prism.core.stage.store import Store
from prism.core.stage.warnings import Warnings

MOST_TOLD = 8
"""How many operations of a cycle a warning tells."""


class Capture:
    """The ranks answer each other; all they do is recorded, and of what they get as much as `kept` says."""

    def __init__(self, ranks: Sequence[int], kept: Kept = EVERYTHING) -> None:
        self.matcher = Matcher()
        self.store = Store()
        self.records = [RankRecord(rank) for rank in ranks]
        self._record_of = {record.rank: record for record in self.records}
        self._keeping = Keeping(kept)
        self._calls: dict[Call, Call] = {}
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

    def record_of(self, rank: int) -> RankRecord:
        """What a rank did."""
        return self._record_of[rank]

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

    def acting(self, rank: int) -> int:
        return rank

    def last_common(self, group: CommGroup) -> Op | None:
        return self.matcher.last_common(group)

    def join(self, event: Joined) -> None:
        self.matcher.join(event.rank, event.group, event.ranks, event.backend)

    def post(self, event: Posted) -> list[Outcome]:
        share(event, self._calls)
        step = PostStep(
            event.group, event.handle, event.call, event.site,
            batch=event.batch, checksum=event.checksum, main=event.main,
        )  # fmt: skip
        if event.batch:
            self._watch_batch(event)
        self._record_of[event.rank].steps.append(step)
        self._steps[event.rank, event.handle] = step
        group = self.matcher.of(event.rank, event.group)
        if event.call.kind is OpKind.SEND_RECV and rules(group.backend).wait_once:
            self._messages[event.rank, event.handle] = group.name
        op = self.matcher.post(event)
        if op is None:
            return []
        for post in op.posts.values() if op.channel else (event,):  # of a message's first side it is known only now
            self._ops[post.rank, post.handle] = op
        return self._proceed(op, event.rank)

    def staged(self, event: Staged) -> list[Outcome]:
        self.matcher.staged(event.rank, event.handle)
        self._steps[event.rank, event.handle].checksum = event.checksum
        op = self._ops.get((event.rank, event.handle))
        return [] if op is None else self._proceed(op, event.rank)

    def folded(self, event: Folded) -> list[Outcome]:
        op = self.matcher.ops[event.op]
        spent = [Spent(p.rank, p.payload) for p in op.posts.values() if p.payload is not None]
        return [*self._finish(op, event.rank, event.results, event.parts), *spent]

    def wait(self, event: Waited) -> None:
        self._record_of[event.rank].steps.append(WaitStep(event.handles, event.site))
        for handle in event.handles:
            self._watch_wait(event.rank, handle, event.site)

    def mark(self, event: Marked) -> None:
        self._record_of[event.rank].steps.append(MarkStep())

    def timed(self, event: Timed) -> None:
        raise AssertionError(f"nothing is timed while capturing, yet rank {event.rank} was")

    def clocked(self, event: Clocked) -> None:
        raise AssertionError(f"nothing is timed while capturing, yet rank {event.rank} was")

    def finish(self, event: Finished) -> None:
        """What a rank leaves open is told when all ranks are through."""

    def complete(self, rank: int) -> bool:
        """Nothing is known beforehand of what a rank will do."""
        return True

    def ask(self, event: Asked) -> Reply | None:
        reply = self.store.ask(event.request)
        if reply is not None:
            self._record_of[event.rank].replies.append((event.request, reply))
        return reply

    def graph(self) -> Graph:
        """The bare graph of what the ranks did."""
        return build_graph(self.records, self.matcher)

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

    def _proceed(self, op: Op, last: int) -> list[Outcome]:
        """What follows once the `last` rank has brought what it brings."""
        if not op.ready:
            return []
        if op.call.kind not in SELF_CONTAINED:
            return [FoldDue(op, last, self._keeping.parts(op))]
        giver = op.giver
        return self._finish(op, giver.rank, () if giver.payload is None else (giver.payload,))

    def _finish(self, op: Op, maker: int, results: tuple[Ref, ...], sums: tuple[Ref, ...] = ()) -> list[Outcome]:
        op.results, op.done = results, True
        posts = {member: op.posts[member] for member in sorted(op.posts)}
        steps = {member: self._steps.pop((post.rank, post.handle)) for member, post in posts.items()}
        dropped = self._keeping.note(op, steps, sums)
        done: list[Done] = []
        for member, post in posts.items():
            step = steps[member]
            step.blocks = op.blocks(member, ITEMSIZE[op.call.dtype])
            step.source = -1 if post.call.sends else op.source
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
