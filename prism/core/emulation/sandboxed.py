"""Sandbox ranks as the world hears them: they carry out their operations themselves, and do what is in the graph.

The operations of a sandbox rank are done by the engine in its own process, so nobody answers a post. Each step is
compared with the one of the rank's record that it repeats (prism.core.stage.walk); where nobody has captured the rank,
with what its lane in the graph tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from prism.core.calls import Reply, StoreCall
from prism.core.emulation.differences import differences, differences_from_lane
from prism.core.emulation.lane_steps import record_of_lane
from prism.core.events import Asked, Clocked, Finished, Folded, Joined, Marked, Posted, Staged, Timed, Waited
from prism.core.graph import Graph, NodeKind, OpKind
from prism.core.measuring.segments import Segments
from prism.core.record import MarkStep, PostStep, RankRecord, Step, WaitStep
from prism.core.stage import phrases
from prism.core.stage.answers import Answers, Diverged
from prism.core.stage.exchange import Outcome
from prism.core.stage.op import CommGroup, Op, Post
from prism.core.stage.store import SETS, Store
from prism.core.stage.walk import Walk, step_of
from prism.core.stage.warnings import Warnings


class _Walk(Walk):
    """How far a rank has come in its steps; `ops`: of each post the row in the graph's ops, -1: it never completed."""

    def __init__(self, record: RankRecord, ops: Sequence[int], captured: bool) -> None:
        super().__init__(record)
        posts = (step.handle for step in record.steps if isinstance(step, PostStep))
        self.ops = dict(zip(posts, ops, strict=True))  # by the handle in the record
        self.captured = captured  # else the steps are those of the lane
        self.walls: list[int] = []  # the rank's clock at its marks, ns


class Sandboxed:
    """The sandbox ranks of a graph, compared with it; `records` may be of any ranks.

    The store answers ranks that have a record from it. The others share a store in which they find what those that
    have one put there when they were captured, virtual ranks above all.
    """

    def __init__(self, graph: Graph, sandbox: Sequence[int], records: Mapping[int, RankRecord]) -> None:
        self.warnings = Warnings()
        self.clocks: dict[int, Clocked] = {}  # how the devices of ranks ran that were timed
        self._graph = graph
        self._walks = {rank: _walk(graph, rank, records.get(rank)) for rank in sandbox}
        self._answers = Answers(records.values())
        self._captured = frozenset(records)
        self._store = Store()
        for record in records.values():
            for request, _ in record.replies:
                if request.action in SETS:
                    self._store.ask(request)
        self._members: dict[tuple[int, str], tuple[int, ...]] = {}
        self._ops: dict[int, Op] = {}  # by their row in the graph
        self._op_of: dict[tuple[int, int], Op] = {}  # by rank and handle

    broken: Op | None = None

    def find(self, rank: int, handle: int) -> Op | None:
        """The operation, as far as sandbox ranks have posted it; None for one that never completed."""
        return self._op_of.get((rank, handle))

    def missing(self, request: StoreCall) -> list[str]:
        return self._store.missing(request)

    def members(self, rank: int, group: str) -> tuple[int, ...]:
        return self._members[rank, group]

    def acting(self, rank: int) -> int:
        return rank

    def last_common(self, group: CommGroup) -> Op | None:
        """Nothing is in common: of virtual ranks nobody knows what they have posted."""

    def segments(self, rank: int) -> Segments:
        """The measured compute segments of the rank; fewer if it did not finish."""
        return self._walks[rank].segments

    def walls(self, rank: int) -> list[int]:
        """The rank's monotonic clock at each of its marks, in ns."""
        return self._walks[rank].walls

    def complete(self, rank: int) -> bool:
        """Whether the rank has made all its steps."""
        return self._walks[rank].complete

    def join(self, event: Joined) -> None:
        self._members[event.rank, event.group] = event.ranks

    def post(self, event: Posted) -> list[Outcome]:
        walk = self._walks[event.rank]
        step = step_of(event)
        expected = self._next(event.rank, step, event.compute)
        if not isinstance(expected, PostStep):
            raise Diverged(event.rank, expected, step.told())
        row = walk.ops[expected.handle]
        compare = differences if walk.captured else differences_from_lane
        found = [*compare(expected.call, event.call), *self._group_differences(expected, event, row)]
        if found:
            raise Diverged(event.rank, expected, f"{step.told()} ({'; '.join(found)})")
        if row >= 0:
            self._note(row, event)
        return []

    def staged(self, event: Staged) -> list[Outcome]:
        raise AssertionError(f"the engine takes inputs from where they are, yet rank {event.rank} has staged one")

    def folded(self, event: Folded) -> list[Outcome]:
        raise AssertionError(f"sandbox ranks are told to fold nothing, yet rank {event.rank} folded")

    def wait(self, event: Waited) -> None:
        step = WaitStep(event.handles, event.site)
        expected = self._next(event.rank, step, event.compute)
        awaited = self._walks[event.rank].handles(step.handles)
        if not isinstance(expected, WaitStep) or expected.handles != awaited:
            raise Diverged(event.rank, expected, step.told())

    def mark(self, event: Marked) -> None:
        expected = self._next(event.rank, MarkStep(), event.compute)
        if not isinstance(expected, MarkStep):
            raise Diverged(event.rank, expected, MarkStep().told())
        self._walks[event.rank].walls.append(event.wall)

    def timed(self, event: Timed) -> None:
        walk = self._walks[event.rank]
        walk.timed(event)
        walk.walls[: len(event.walls)] = event.walls

    def clocked(self, event: Clocked) -> None:
        self.clocks[event.rank] = event

    def finish(self, event: Finished) -> None:
        walk = self._walks[event.rank]
        if event.code == 0 and not event.cut and not self.complete(event.rank):
            raise Diverged(event.rank, walk.left(), "the end of the program")

    def ask(self, event: Asked) -> Reply | None:
        return self._answers.ask(event) if event.rank in self._captured else self._store.ask(event.request)

    def _next(self, rank: int, now: Step, compute: int) -> Step:
        if self.complete(rank):
            raise Diverged(rank, None, now.told())
        return self._walks[rank].take(now, compute)

    def _group_differences(self, expected: PostStep, event: Posted, row: int) -> Iterator[str]:
        if event.group != expected.group:
            yield f"group {event.group}, not {expected.group}"
        elif row >= 0:
            now = self.members(event.rank, event.group)
            then = self._graph.groups[self._graph.ops["group"][row]].ranks
            if now != then:
                yield f"a group of {phrases.ranks(now)}, not of {phrases.ranks(then)}"

    def _note(self, row: int, event: Posted) -> None:
        if row not in self._ops:
            self._ops[row] = _op(self._graph, row)
        op = self._ops[row]
        op.posts[_place(op, event)] = Post(event.rank, event.handle, event.call, None, event.site)
        self._op_of[event.rank, event.handle] = op


def ops_of_posts(graph: Graph, record: RankRecord) -> list[int]:
    """The op of each post in a captured rank's record, as rows in the graph; -1 for a post that never completed.

    Such a post has no node: what is left of it in the lane is the compute segment that each step has before it.
    """
    lane = int(np.flatnonzero(graph.lanes["rank"] == record.rank)[0])
    nodes = graph.nodes[graph.lane_ptr[lane] : graph.lane_ptr[lane + 1]]
    kinds, refs = nodes["kind"].tolist(), nodes["ref"].tolist()
    ops, at = [], 0
    for step in record.steps:
        at += 1
        posts = isinstance(step, PostStep)
        completed = at < len(kinds) and kinds[at] == NodeKind.POST
        if posts:
            ops.append(refs[at] if completed else -1)
        at += completed or not posts
    return ops


def iteration_ns(walls: Sequence[int], warmup: int) -> list[int]:
    """How long each iteration took after the warm-up, from a clock read at each mark; ns.

    The first iteration has no mark before it, so it always belongs to the warm-up.
    """
    taken: list[int] = np.diff(np.array(walls, np.int64)).tolist()
    return taken[max(warmup - 1, 0) :]


def error_vs_replay(emulated: Mapping[int, Sequence[int]], replayed: Mapping[int, Sequence[int]]) -> float | None:
    """The median over ranks of (emulated - replayed) / replayed, for each rank of the medians of its iterations in ns.

    None if no rank has both.
    """
    both = [rank for rank in emulated if emulated[rank] and replayed.get(rank)]
    ratios = [np.median(emulated[rank]) / np.median(replayed[rank]) for rank in both]
    return float(np.median(ratios)) - 1 if ratios else None


def _walk(graph: Graph, rank: int, record: RankRecord | None) -> _Walk:
    if record is not None:
        return _Walk(record, ops_of_posts(graph, record), captured=True)
    of_rank = graph.nodes[graph.node_rank() == rank]
    posted = of_rank["ref"][of_rank["kind"] == NodeKind.POST].tolist()
    return _Walk(record_of_lane(graph, rank), posted, captured=False)


def _place(op: Op, event: Posted) -> int:
    """Where among the posts of an op this one belongs."""
    if event.call.kind is OpKind.SEND_RECV:
        return 0 if event.call.sends else 1
    return op.group.member(event.rank)


def _op(graph: Graph, row: int) -> Op:
    """An op of the graph that nobody has posted yet."""
    op = graph.ops[row]
    group = graph.groups[op["group"]]
    posts = graph.posts[graph.post_ptr[row] : graph.post_ptr[row + 1]]
    lanes = np.searchsorted(graph.lane_ptr, posts, side="right") - 1
    members = tuple(graph.lanes["rank"][lanes].tolist())
    made = CommGroup(int(op["group"]), group.name, group.ranks, group.backend)
    channel: tuple[int, ...] = ()
    if op["kind"] == OpKind.SEND_RECV:
        channel = (*(group.ranks.index(rank) for rank in members), int(op["tag"]))
    return Op(row, made, int(op["seq"]), members, channel)
