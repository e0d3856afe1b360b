"""What the virtual ranks of an emulation will do, summed up: when they post, from when earlier touching ops ended.

Virtual member i posts touching op k at T_i(k) = max over roots j of end(j) + W(k, i, j). The roots are the origin and
earlier touching ops; W is the longest path from the one to the other among virtual ranks, dominated ones left out. With
the ends that the emulation has, this is when the virtual ranks of the whole world would post, whatever the sandbox
ranks do: to the nanosecond what replay would say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prism.core.emulation.dominance import Guarantees, undominated
from prism.core.emulation.touching import Touching
from prism.core.emulation.virtual_paths import NONE, VirtualPaths, find_paths
from prism.core.graph import Graph, Int64
from prism.core.levels import pointers
from prism.core.timeline.replay import Plan

Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Summary:
    """The paths to the virtual posts, op by op. Root 0 is the origin, root 1 + k the end of touching op k."""

    post_ptr: Int64  # touching ops + 1: the rows of their virtual posts, in the order of Touching.virtual
    path_ptr: Int64  # virtual posts + 1: the paths to each, at least one
    root: Int32  # paths: where they come from
    ns: Int64  # paths: how long they take
    need_ptr: Int64  # touching ops + 1: the roots that the virtual posts of each depend on
    need: Int32
    longest: Int64  # the longest path from that root to any of the op's virtual posts, ns


def summarize(graph: Graph, plan: Plan, touching: Touching, durations: Int64, costs: Int64) -> Summary:
    """Sum up the virtual ranks of a planned graph; durations: int64[nodes] ns, costs: int64[ops] ns.

    Raises InvalidGraph if a virtual lane waits for an event of a sandbox rank.
    """
    paths = find_paths(graph, plan, touching, durations, costs)
    guarantees = Guarantees(1 + len(touching.op))
    parts = []
    for op, (roots, lengths) in enumerate(_by_op(paths)):
        kept = undominated(lengths, roots, guarantees)
        part = _part(roots, np.where(kept, lengths, NONE), kept)
        guarantees.tell(1 + op, part.need, part.longest, 1 + int(touching.prev[op]), int(costs[touching.op[op]]))
        parts.append(part)
    return _joined(paths, parts)


class Clock:
    """The virtual time of an emulation, from which all posts of virtual ranks follow; ns since the origin.

    It advances op by op, in any order in which each is `ready`: its end is told once all sandbox members have posted.
    """

    def __init__(self, touching: Touching, summary: Summary, costs: Int64) -> None:
        """costs: int64[ops] ns, as they were summed up with."""
        self._summary = summary
        self._prev = touching.prev
        self._costs = costs[touching.op]
        self._ends = np.full(1 + len(touching.op), NONE)
        order = np.argsort(summary.need, kind="stable")
        self._needed_by = np.repeat(np.arange(len(touching.op)), np.diff(summary.need_ptr))[order]
        self._needed_ptr = np.searchsorted(summary.need[order], np.arange(len(self._ends) + 1))
        self._missing = np.diff(summary.need_ptr)
        self._end(0, 0)

    @property
    def ends(self) -> Int64:
        """When each touching op ended, int64[touching ops]; NONE for those that have not."""
        return self._ends[1:]

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
        times = self._ends[summary.root[paths]] + summary.ns[paths]
        latest: Int64 = np.maximum.reduceat(times, rows[:-1] - rows[0])
        return latest

    def last_post(self, op: int) -> int:
        """When the last virtual member of an op that is ready posts it; NONE if it has no virtual member."""
        assert self.ready(op), f"touching op {op} depends on what has not ended"
        needs = slice(self._summary.need_ptr[op], self._summary.need_ptr[op + 1])
        return int((self._ends[self._summary.need[needs]] + self._summary.longest[needs]).max(initial=NONE))

    def finish(self, op: int, sandbox_posts: Sequence[int]) -> int:
        """End an op that is ready, once the op before it in its channel has ended; returns when it ends."""
        prev = self._prev[op]
        before = int(self._ends[1 + prev]) if prev >= 0 else NONE
        assert prev < 0 or before != NONE, f"touching op {op} comes after {prev}, which has not ended"
        end = max(self.last_post(op), before, *sandbox_posts) + int(self._costs[op])
        self._end(1 + op, end)
        return end

    def unlocked(self, op: int) -> list[int]:
        """The ops that are ready since this one, the last to end, has ended."""
        needing = self._needing(1 + op)
        ready: list[int] = needing[self._missing[needing] == 0].tolist()
        return ready

    def _end(self, root: int, end: int) -> None:
        self._ends[root] = end
        self._missing[self._needing(root)] -= 1

    def _needing(self, root: int) -> Int64:
        return self._needed_by[self._needed_ptr[root] : self._needed_ptr[root + 1]]


class _Part(NamedTuple):
    """What the summary holds of one op; see there."""

    paths: Int64  # virtual posts: how many paths lead to them
    root: Int64
    ns: Int64
    need: Int64
    longest: Int64


def _by_op(paths: VirtualPaths) -> Iterator[tuple[Int64, Int64]]:
    """Of each touching op: the roots of paths to its virtual posts, and their lengths, int64[roots, posts]."""
    found = paths.lengths()
    order = np.argsort(found.post, kind="stable")
    post, root, ns = found.post[order], found.root[order], found.ns[order]
    bounds = np.searchsorted(post, paths.post_ptr)
    for op, (first, last) in enumerate(zip(paths.post_ptr[:-1], paths.post_ptr[1:], strict=True)):
        part = slice(bounds[op], bounds[op + 1])
        roots, row = np.unique(root[part], return_inverse=True)
        lengths = np.full((len(roots), last - first), NONE)
        lengths[row, post[part] - first] = ns[part]
        yield roots, lengths


def _part(roots: Int64, lengths: Int64, kept: npt.NDArray[np.bool_]) -> _Part:
    post, row = np.nonzero(kept.T)
    needed = kept.any(axis=1)
    longest = lengths[needed].max(axis=1, initial=NONE)
    return _Part(kept.sum(axis=0), roots[row], lengths[row, post], roots[needed], longest)


def _joined(paths: VirtualPaths, parts: Sequence[_Part]) -> Summary:
    nothing = np.zeros(0, np.int64)
    count, root, ns, need, longest = (
        np.concatenate([nothing, *column]) for column in (zip(*parts, strict=True) if parts else [()] * 5)
    )
    need_ptr = pointers(np.array([len(part.need) for part in parts], np.int64))
    return Summary(
        post_ptr=paths.post_ptr,
        path_ptr=pointers(count),
        root=root.astype(np.int32),
        ns=ns,
        need_ptr=need_ptr,
        need=need.astype(np.int32),
        longest=longest,
    )
