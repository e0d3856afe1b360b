"""What the virtual ranks of an emulation will do, summed up: when they post, from when earlier touching ops ended.

Virtual member i posts touching op k at T_i(k) = max over roots j of value(j) + W(k, i, j). The roots are the origin,
earlier touching ops, whose value is when they end, and relays, whose value follows from other roots like a post's; W is
the longest path from the one to the other among virtual ranks, dominated ones left out. With the ends that the
emulation has, this is when the virtual ranks of the whole world would post, whatever the sandbox ranks do: to the
nanosecond what replay would say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.emulation.touching import Touching
from prism.core.emulation.virtual_paths import longest_paths
from prism.core.emulation.virtual_points import find_points
from prism.core.graph import Graph, Int64
from prism.core.levels import pointers, ranges
from prism.core.timeline.replay import Plan

Int32 = npt.NDArray[np.int32]
NONE = -(2**62)
"""When what has not ended ended. Sums of it with times stay below all times."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The paths to the virtual posts, op by op. Root 0 is the origin, root 1 + k the end of touching op k, or a relay.

    Relays are numbered behind the touching ops, each after those that it depends on.
    """

    post_ptr: Int64  # touching ops + 1: the rows of their virtual posts, in the order of Touching.virtual
    path_ptr: Int64  # virtual posts + 1: the paths to each, at least one
    root: Int32  # paths: where they come from
    ns: Int64  # paths: how long they take
    need_ptr: Int64  # touching ops and relays + 1: the roots that a relay, or the virtual posts of an op, depend on
    need: Int32
    longest: Int64  # the longest path from that root to the relay, or to any of the op's virtual posts, ns


def summarize(graph: Graph, plan: Plan, touching: Touching, durations: Int64, costs: Int64) -> Summary:
    """Sum up the virtual ranks of a planned graph; durations: int64[nodes] ns, costs: int64[ops] ns.

    Raises InvalidGraph if a virtual lane waits for an event of a sandbox rank.
    """
    points = find_points(graph, plan, touching, durations, costs)
    to_posts, to_roots, relays = longest_paths(points)
    post_ptr = pointers(np.diff(points.edge_ptr)[points.end])
    root = np.zeros(len(points), np.int32)
    roots = np.concatenate((points.end, relays))
    root[roots] = np.arange(1, len(roots) + 1)
    row = root[to_roots.point] - 1
    order = np.argsort(row, kind="stable")
    return Summary(
        post_ptr=post_ptr,
        path_ptr=pointers(np.bincount(to_posts.point, minlength=post_ptr[-1])),
        root=root[to_posts.root],
        ns=to_posts.ns,
        need_ptr=pointers(np.bincount(row, minlength=len(roots))),
        need=root[to_roots.root[order]],
        longest=to_roots.ns[order],
    )


class Clock:
    """The virtual time of an emulation, from which all posts of virtual ranks follow; ns since the origin.

    It advances op by op, in any order in which each is `ready`: its end is told once all sandbox members have posted.
    """

    def __init__(self, touching: Touching, summary: Summary, costs: Int64) -> None:
        """costs: int64[ops] ns, as they were summed up with."""
        self._summary = summary
        self._prev = touching.prev
        self._costs = costs[touching.op]
        self._missing = np.diff(summary.need_ptr)
        self._values = np.full(1 + len(self._missing), NONE)  # of each root
        order = np.argsort(summary.need, kind="stable")
        self._needed_by = np.repeat(np.arange(len(self._missing)), self._missing)[order]
        self._needed_ptr = np.searchsorted(summary.need[order], np.arange(len(self._values) + 1))
        self._unlocked = self._end(0, 0)

    @property
    def ends(self) -> Int64:
        """When each touching op ended, int64[touching ops]; NONE for those that have not."""
        return self._values[1 : 1 + len(self._prev)]

    @property
    def unlocked(self) -> list[int]:
        """The ops that are ready since the last one to end has ended, ascending."""
        return self._unlocked

    def ready(self, op: int) -> bool:
        """Whether all has ended that the virtual posts of a touching op depend on."""
        return bool(self._missing[op] == 0)

    def posts(self, op: int) -> Int64:
        """When the virtual members of an op that is ready post it, in the order of Touching.virtual."""
        assert self.ready(op), f"touching op {op} depends on what has not ended"
        summary = self._summary
        rows = summary.path_ptr[summary.post_ptr[op] : summary.post_ptr[op + 1] + 1]
        if len(rows) == 1:
            return np.zeros(0, np.int64)
        paths = slice(rows[0], rows[-1])
        times = self._values[summary.root[paths]] + summary.ns[paths]
        latest: Int64 = np.maximum.reduceat(times, rows[:-1] - rows[0])
        return latest

    def last_post(self, op: int) -> int:
        """When the last virtual member of an op that is ready posts it; NONE if it has no virtual member."""
        assert self.ready(op), f"touching op {op} depends on what has not ended"
        needs = slice(self._summary.need_ptr[op], self._summary.need_ptr[op + 1])
        return int((self._values[self._summary.need[needs]] + self._summary.longest[needs]).max(initial=NONE))

    def finish(self, op: int, sandbox_posts: Sequence[int]) -> int:
        """End an op that is ready, once the op before it in its channel has ended; returns when it ends."""
        prev = self._prev[op]
        before = int(self._values[1 + prev]) if prev >= 0 else NONE
        assert prev < 0 or before != NONE, f"touching op {op} comes after {prev}, which has not ended"
        end = max(self.last_post(op), before, *sandbox_posts) + int(self._costs[op])
        self._unlocked = self._end(1 + op, end)
        return end

    def _end(self, root: int, end: int) -> list[int]:
        """Tell the value of a root, and of the relays that follow from it; returns the ops that are ready since."""
        self._values[root] = end
        needing = self._needed_by[self._needed_ptr[root] : self._needed_ptr[root + 1]]
        self._missing[needing] -= 1
        ready = needing[self._missing[needing] == 0]
        while (relays := ready[ready >= len(self._prev)]).size:
            ready = np.concatenate((ready[ready < len(self._prev)], self._follow(relays)))
        unlocked: list[int] = np.sort(ready).tolist()
        return unlocked

    def _follow(self, relays: Int64) -> Int64:
        """Tell the values of relays that are ready; returns what is ready since."""
        needs, starts = _rows(self._summary.need_ptr, relays)
        times = self._values[self._summary.need[needs]] + self._summary.longest[needs]
        self._values[1 + relays] = np.maximum.reduceat(times, starts)
        needing = self._needed_by[_rows(self._needed_ptr, 1 + relays)[0]]
        np.subtract.at(self._missing, needing, 1)
        return np.unique(needing[self._missing[needing] == 0])


def _rows(ptr: Int64, chosen: Int64) -> tuple[Int64, Int64]:
    """The rows that some of these pointers point to, and where those of each start."""
    first, last = ptr[chosen], ptr[chosen + 1]
    return ranges(first, last), pointers(last - first)[:-1]
