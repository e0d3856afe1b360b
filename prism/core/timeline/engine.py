"""Replay by an event queue, for what depends on the schedule: shared links, ranks that stop, ranks that throttle.

Theory of operation. Every lane has a cursor: the node that it is in. A lane advances until its node takes time or
waits for something; then it is left, and looked at again when that is over. An op begins with its last post and the
end of the op before it in its channel. It takes its latency, then its transfer, whose end moves while others share its
links: an event for an end that has moved since is stale. Where nothing is shared, stops or throttles, every time is the
same maximum over the same predecessors as in `replay.evaluate`, to the nanosecond.

The queue is a heap of (at, priority, seq, ...); seq is unique, so that no tie is left to luck. At one time the ends of
ops come first, then lanes, then stops: what ends when a rank stops has still ended. Last, links are shared anew, once
for all that began or ended.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind, Timeline
from prism.core.timeline.network import Costs
from prism.core.timeline.sharing import Loads, Transfers
from prism.core.timeline.throttle import Throttle

NEVER = -1
"""In a timeline: it does not happen."""

_END_OF_TIME = 2**63 - 1
_OP, _LANE, _STOP, _SHARE = range(4)  # priorities


class Stop(NamedTuple):
    """A rank stops: of its nodes and its ops nothing ends after `at`, in ns."""

    rank: int
    at: int


class Stall(NamedTuple):
    """A rank that waits for ever: in which node, and since when."""

    rank: int
    node: int
    since: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The timeline, NEVER for what does not happen, and the lanes that stall, in the order of lanes."""

    timeline: Timeline
    stalls: list[Stall]


def simulate(
    graph: Graph,
    durations: Int64,
    costs: Costs,
    *,
    loads: Sequence[Loads] | None = None,
    throttle: Throttle | None = None,
    stop: Stop | None = None,
) -> Outcome:
    """Run a graph that `replay.make_plan` accepts.

    durations: int64[nodes] ns; loads: what each op takes of which links, None if every op has its links to itself.
    """
    run = _Run(graph, durations, costs, loads, throttle, stop)
    run.to_its_end()
    return Outcome(Timeline(*(np.array(column, np.int64) for column in run.columns)), run.stalls(stop))


class _Run:
    def __init__(
        self,
        graph: Graph,
        durations: Int64,
        costs: Costs,
        loads: Sequence[Loads] | None,
        throttle: Throttle | None,
        stop: Stop | None,
    ) -> None:
        self._kind, self._ref = graph.nodes["kind"].tolist(), graph.nodes["ref"].tolist()
        self._work = durations.tolist()
        self._latency, self._transfer = costs.latency.tolist(), costs.transfer.tolist()
        self._awaited = _rows(graph.wait_ptr, graph.wait_ops)
        self._cursor, self._last = graph.lane_ptr[:-1].tolist(), graph.lane_ptr[1:].tolist()
        self._rank = graph.lanes["rank"].tolist()
        self._throttle = throttle
        self._throttled = frozenset(throttle.ranks if throttle else ())
        self._transfers = None if loads is None else Transfers(loads)
        self._missing = (np.diff(graph.post_ptr) + (graph.ops["prev"] >= 0)).tolist()
        self._next: dict[int, list[int]] = defaultdict(list)
        for op in np.flatnonzero(graph.ops["prev"] >= 0).tolist():
            self._next[int(graph.ops["prev"][op])].append(op)
        self._lane_stops = [stop.at if stop and rank == stop.rank else _END_OF_TIME for rank in self._rank]
        self._op_stops = [_END_OF_TIME] * len(graph.ops)
        for op in _ops_of(graph, stop.rank) if stop else ():
            self._op_stops[op] = stop.at if stop else 0
        self._due: dict[int, int] = {}  # ops in flight: when they end, as things are
        self._moving: dict[int, None] = {}  # those of them that are on their links
        self._op_waiters: dict[int, list[int]] = defaultdict(list)
        self._event_waiters: dict[int, list[int]] = defaultdict(list)
        self._recorded: set[int] = set()
        self.columns = [[NEVER] * length for length in (len(graph.nodes),) * 2 + (len(graph.ops),) * 2]
        self._start, self._end, self._op_start, self._op_end = self.columns
        self._queue: list[tuple[int, int, int, Callable[[int, int], None], int]] = []
        self._seq = count()
        if stop:
            self._at(stop.at, _STOP, self._stop, stop.rank)

    def to_its_end(self) -> None:
        """Handle events until there are none."""
        for op in range(len(self._missing)):
            if self._missing[op] == 0:
                self._begin(op, 0)
        for lane in range(len(self._cursor)):
            self._at(0, _LANE, self._advance, lane)
        while self._queue:
            at, _, _, action, subject = heapq.heappop(self._queue)
            action(subject, at)

    def stalls(self, stop: Stop | None) -> list[Stall]:
        """The lanes that never got to their end, but for those of the rank that stopped."""
        stopped = stop.rank if stop else None
        return [
            Stall(rank, node, self._start[node])
            for rank, node, last in zip(self._rank, self._cursor, self._last, strict=True)
            if node < last and rank != stopped
        ]

    def _at(self, at: int, priority: int, action: Callable[[int, int], None], subject: int) -> None:
        heapq.heappush(self._queue, (at, priority, next(self._seq), action, subject))

    def _advance(self, lane: int, now: int) -> None:
        """Take the lane through its nodes until one of them takes time."""
        if now > self._lane_stops[lane]:
            return
        node = self._cursor[lane]
        while node < self._last[lane]:
            if self._start[node] == NEVER:
                self._start[node] = now
            if not self._is_over(node, lane, now):
                break
            self._end[node] = now
            node += 1
        self._cursor[lane] = node

    def _is_over(self, node: int, lane: int, now: int) -> bool:
        """Whether a lane can leave its node now; if not, it is called again when it may."""
        ref = self._ref[node]
        match self._kind[node]:
            case NodeKind.COMPUTE:
                end = self._computed(node, lane)
                if end > now:
                    self._at(end, _LANE, self._advance, lane)
                return end <= now
            case NodeKind.POST:
                self._arrive(ref, now)
            case NodeKind.WAIT:
                awaited = next((op for op in self._awaited[ref] if self._op_end[op] == NEVER), None)
                if awaited is not None:
                    self._op_waiters[awaited].append(lane)
                return awaited is None
            case NodeKind.RECORD:
                self._recorded.add(ref)
                for waiter in self._event_waiters.pop(ref, ()):
                    self._at(now, _LANE, self._advance, waiter)
            case NodeKind.WAIT_EVENT if ref not in self._recorded:
                self._event_waiters[ref].append(lane)
                return False
        return True

    def _computed(self, node: int, lane: int) -> int:
        if self._throttle and self._rank[lane] in self._throttled:
            return self._throttle.finish(self._start[node], self._work[node])
        return int(self._start[node] + self._work[node])

    def _arrive(self, op: int, now: int) -> None:
        """One of the things that an op needs is there: a post, or the end of the op before it."""
        self._missing[op] -= 1
        if self._missing[op] == 0:
            self._begin(op, now)

    def _begin(self, op: int, now: int) -> None:
        if now > self._op_stops[op]:
            return
        self._op_start[op] = now
        shared = self._transfers is not None and self._transfer[op] > 0
        self._due[op] = now + self._latency[op] + (0 if shared else self._transfer[op])
        self._at(self._due[op], _OP, self._move if shared else self._finish, op)

    def _move(self, op: int, now: int) -> None:
        """The latency of an op is over: it goes on its links."""
        if op in self._due:
            assert self._transfers is not None
            self._moving[op] = None
            self._transfers.begin(op, self._transfer[op], now)
            self._at(now, _SHARE, self._share, op)

    def _share(self, _op: int, now: int) -> None:
        """Transfers began or ended now: the ends of those that share their links move."""
        assert self._transfers is not None
        for op, end in self._transfers.share(now).items():
            self._due[op] = end
            self._at(end, _OP, self._finish, op)

    def _finish(self, op: int, now: int) -> None:
        if self._due.get(op) != now:
            return
        self._leave(op, now)
        self._op_end[op] = now
        for later in self._next.get(op, ()):
            self._arrive(later, now)
        for lane in self._op_waiters.pop(op, ()):
            self._advance(lane, now)

    def _leave(self, op: int, now: int) -> None:
        del self._due[op]
        if op in self._moving:
            assert self._transfers is not None
            del self._moving[op]
            self._transfers.end(op)
            self._at(now, _SHARE, self._share, op)

    def _stop(self, rank: int, now: int) -> None:
        """The ops in which the rank takes part come to nothing."""
        for op in [op for op in self._due if self._op_stops[op] <= now]:
            self._leave(op, now)


def _rows(ptr: Int64, values: Int64) -> list[list[int]]:
    bounds, flat = ptr.tolist(), values.tolist()
    return [flat[first:last] for first, last in pairwise(bounds)]


def _ops_of(graph: Graph, rank: int) -> list[int]:
    """The ops that the rank posts."""
    posted = (graph.nodes["kind"] == NodeKind.POST) & (graph.node_rank() == rank)
    ops: list[int] = np.unique(graph.nodes["ref"][posted]).tolist()
    return ops
