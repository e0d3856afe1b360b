"""Verification: some ranks that are folded run all the same, and have to do what their representatives did.

They run after the others, and get what their representatives got, so that whatever they do differently is their own.
The first difference ends the run: in a step, or in the bytes that are put in.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from prism.core.calls import Call, Ref, Reply, StoreCall
from prism.core.events import Asked, Finished, Joined, Marked, Posted, Staged, Waited
from prism.core.folding.roles import FoldedCapture
from prism.core.folding.shape import Folding
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.record import MarkStep, PostStep, RankRecord, Step, WaitStep
from prism.core.stage.answers import Answers, Diverged
from prism.core.stage.exchange import Done, Outcome, Spent
from prism.core.stage.op import SELF_CONTAINED, Op
from prism.core.stage.walk import step_of

LONGEST = 200
"""Characters of a value that a difference tells."""
ALWAYS = ("kind", "dtype", "reduce", "root", "tag", "sends")
"""What two calls have in common, whatever the part of the ranks in them."""
OTHER_BYTES = (
    "; nothing is wrong where replicas have shards of the weights (FSDP over a folded dimension) or data of their own: "
    "then write `compare: steps` in fold, which compares all but the bytes"
)
"""Why a difference in bytes alone may be none, and what to write."""

Difference = tuple[str, object, object]
"""What differs, as it was recorded, and as it is."""


def choose(folding: Folding, count: int, seed: int) -> tuple[int, ...]:
    """So many of the ranks that do not run, ascending."""
    running = frozenset(folding.representatives)
    folded = [rank for rank in range(folding.world_size) if rank not in running]
    drawn = np.random.Generator(np.random.PCG64(seed)).permutation(len(folded))[:count]
    return tuple(sorted(folded[place] for place in drawn.tolist()))


class Unlike(Diverged):
    """A rank does not do what the rank that stands for it did; the text names both, and the first difference."""

    def __init__(self, rank: int, representative: int, step: int, what: str, was: str, now: str, why: str) -> None:
        told = f"at step {step}, {what}: rank {representative} has {was}, rank {rank} has {now}{why}"
        Exception.__init__(self, f"rank {rank} is not like rank {representative}, which stands for it: {told}")
        self.rank = rank


@dataclass(frozen=True)
class _Brings:
    """A post of a rank, its step and the recorded one, at that place in the record; `op`: None, where none was done."""

    event: Posted
    recorded: PostStep
    now: PostStep
    op: Op | None
    at: int


class Verification(Answers):
    """Answers the chosen ranks with the results of their representatives, and compares what they do.

    With `payloads` the bytes that they put in have to be equal, too.
    """

    def __init__(self, capture: FoldedCapture, ranks: Iterable[int], payloads: bool) -> None:
        self._folding, self._store, self._payloads = capture.folding, capture.store, payloads
        own = {record.rank: record for record in capture.records}
        self._of = {rank: own[capture.folding.representative(rank)] for rank in ranks}
        super().__init__(RankRecord(rank, of.steps) for rank, of in self._of.items())
        self._groups: dict[tuple[int, str], tuple[int, ...]] = {}
        self._on_their_way: dict[tuple[int, int], _Brings] = {}  # by rank and handle
        needed = {of.rank for of in self._of.values()}
        posts = ((post, op) for op in capture.matcher.ops for post in op.posts.values())
        self._ops = {(post.rank, post.handle): op for post, op in posts if post.rank in needed}

    def join(self, event: Joined) -> None:
        if event.rank in event.ranks:
            self._groups[event.rank, event.group] = event.ranks

    def members(self, rank: int, group: str) -> tuple[int, ...]:
        return self._groups[rank, group]

    def missing(self, request: StoreCall) -> list[str]:
        return self._store.missing(request)

    def ask(self, event: Asked) -> Reply | None:
        return self._store.ask(event.request)

    def post(self, event: Posted) -> list[Outcome]:
        step = step_of(event)
        recorded = self._next(event.rank, step, event.compute)
        if not isinstance(recorded, PostStep):
            raise self._unlike(event.rank, "what is done", recorded.told(), step.told())
        op = self._ops.get((self._of[event.rank].rank, recorded.handle))
        for what, was, now in self._differences(event.rank, recorded, step, op):
            raise self._unlike(event.rank, what, was, now)
        brings = _Brings(event, recorded, step, op, self._walks[event.rank].number)
        if event.staged:
            return self._answer(brings)
        self._on_their_way[event.rank, event.handle] = brings
        return []

    def staged(self, event: Staged) -> list[Outcome]:
        brings = self._on_their_way.pop((event.rank, event.handle))
        brings.now.checksum = event.checksum
        return self._answer(brings)

    def _answer(self, brings: _Brings) -> list[Outcome]:
        """What follows now that the bytes are there; before, a result might lie where they are still read."""
        event, recorded, step, op = brings.event, brings.recorded, brings.now, brings.op
        if op is None:
            done = Done(event.rank, event.handle, recorded.result, recorded.blocks, recorded.source)
            return [done, *self._spent(event)]
        if self._payloads and recorded.checksum != step.checksum and self._alike(event.rank, recorded, step, op):
            what = f"checksum of the bytes that it puts into {_place(step)}"
            sums = (f"{recorded.checksum:08x}", f"{step.checksum:08x}")
            raise self._unlike(event.rank, what, *sums, brings.at, OTHER_BYTES)
        result, source = self._result(event.rank, recorded, op), self._source(event.rank, recorded, step, op)
        return [Done(event.rank, event.handle, result, recorded.blocks, source), *self._spent(event)]

    def _spent(self, event: Posted) -> list[Outcome]:
        """What was put in, where it is not in the record: nobody reads it any more, for its checksum is told."""
        if event.payload is None or event.call.kind in SELF_CONTAINED:
            return []
        return [Spent(event.rank, event.payload)]

    def wait(self, event: Waited) -> None:
        step = WaitStep(event.handles, event.site)
        recorded = self._next(event.rank, step, event.compute)
        awaited = self._walks[event.rank].handles(step.handles)
        if not isinstance(recorded, WaitStep) or (recorded.handles, recorded.site) != (awaited, step.site):
            raise self._unlike(event.rank, "what is done", recorded.told(), step.told())

    def mark(self, event: Marked) -> None:
        recorded = self._next(event.rank, MarkStep(), event.compute)
        if not isinstance(recorded, MarkStep):
            raise self._unlike(event.rank, "what is done", recorded.told(), MarkStep().told())

    def finish(self, event: Finished) -> None:
        if not self.complete(event.rank):
            walk = self._walks[event.rank]
            raise self._unlike(event.rank, "what is done", walk.left().told(), "ended", walk.number + 1)

    def _next(self, rank: int, now: Step, compute: int) -> Step:
        if self.complete(rank):
            raise self._unlike(rank, "what is done", "ended", now.told(), self._walks[rank].number + 1)
        return super()._next(rank, now, compute)

    def _unlike(self, rank: int, what: str, was: object, now: object, step: int = 0, why: str = "") -> Unlike:
        """The difference at a step; 0: the one that the rank has come to."""
        had, has = (textwrap.shorten(str(one), LONGEST, placeholder=" ...") for one in (was, now))
        return Unlike(rank, self._of[rank].rank, step or self._walks[rank].number, what, had, has, why)

    def _result(self, rank: int, recorded: PostStep, op: Op) -> Ref | None:
        """What the rank gets: its own share where it is in one group with its representative."""
        if op.channel or op.call.kind is OpKind.ALL_TO_ALL or rank not in op.members:
            return recorded.result
        return op.result(op.group.member(rank), ITEMSIZE[op.call.dtype])

    def _source(self, rank: int, recorded: PostStep, now: PostStep, op: Op) -> int:
        """From whom a message comes."""
        if recorded.source < 0:
            return recorded.source
        sender = self._folding.moved(op.group.ranks[recorded.source], self._folding.shift(rank))
        return self._groups[rank, now.group].index(sender)

    def _differences(self, rank: int, recorded: PostStep, now: PostStep, op: Op | None) -> Iterator[Difference]:
        """In what two posts differ, but for where the ranks lie."""
        was, call = recorded.call, now.call
        pairs: list[Difference] = [(name, getattr(was, name), getattr(call, name)) for name in ALWAYS]
        if (was.name, recorded.site) != (call.name, now.site):
            yield "what is done", recorded.told(), now.told()
        if op is None:
            yield from (pair for pair in pairs if pair[1] != pair[2])
            return
        if self._alike(rank, recorded, now, op):
            pairs += [(name, getattr(was, name), getattr(call, name)) for name in ("count", "shape")]
            pairs += self._moved(rank, op.group.ranks, was, self._groups[rank, now.group], call)
        yield from ((f"{what} of {_place(now)}", one, other) for what, one, other in pairs if one != other)

    def _alike(self, rank: int, recorded: PostStep, now: PostStep, op: Op) -> bool:
        """Whether two posts bring as much: the root of an operation does not, if both are in it."""
        roots = _is_root(self._of[rank].rank, recorded.call, op.members)
        return rank not in op.members or not (roots or _is_root(rank, now.call, self._groups[rank, now.group]))

    def _moved(
        self, rank: int, theirs: Sequence[int], recorded: Call, mine: Sequence[int], now: Call
    ) -> Iterator[Difference]:
        """What depends on where the ranks lie, as it has to be, and as it is."""
        shift = self._folding.shift(rank)
        moved = [self._folding.moved(member, shift) for member in theirs]
        yield "ranks", sorted(moved), sorted(mine)
        yield "peer", moved[recorded.peer] if recorded.peer >= 0 else -1, mine[now.peer] if now.peer >= 0 else -1
        exchange = recorded.kind is OpKind.ALL_TO_ALL and sorted(moved) == sorted(mine)
        for name in ("send", "recv"):
            was = getattr(recorded, name)
            yield name, tuple(was[moved.index(member)] for member in mine) if exchange else was, getattr(now, name)


def _place(step: PostStep) -> str:
    return f"{step.call.name} at {step.site or '?'}"


def _is_root(rank: int, call: Call, members: Sequence[int]) -> bool:
    return call.root >= 0 and members[call.root] == rank
