"""The virtual ranks' part in the touching operations: which engine plays them, with what, and from when on."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prism.core.calls import Call, Ref
from prism.core.graph import Int64, OpKind
from prism.core.record import PostStep
from prism.core.stage.keeping import REDUCTIONS
from prism.gpu.emulation.clock import now
from prism.gpu.emulation.engine_calls import PAIRWISE, engine_op, group_name, message_bytes, pipe_name
from prism.gpu.emulation.executor import Job
from prism.gpu.emulation.prefetch import Pool
from prism.gpu.pruned import Arc, Branches, Contribution, Pace, Peers, Pipe
from prism.gpu.pruned.plans import Branch, branches
from prism.net.dealing import Lane, lane_of
from prism.net.schedule import GroupPart, Schedule


class Need(NamedTuple):
    """One use of a payload: in touching op `op`, the result, before, after or rest of a sandbox rank."""

    op: int
    part: str


class VirtualRanks:
    """Those that answer the sandbox rank `rank`: the arc that ends at it, its peers and its partners in messages.

    Along trees, those in the branches that it keeps. With `played` in those lanes only.
    """

    def __init__(self, schedule: Schedule, rank: int, fifos: Path, played: Collection[Lane] | None = None) -> None:
        self._schedule = schedule
        self._played = played
        self._fifos = fifos
        self._rank = rank
        steps = {part.rank: dict(zip(part.ops, part.steps, strict=True)) for part in schedule.plain.parts}
        self._steps: Mapping[int, Mapping[int, PostStep]] = steps
        self._arcs_of: dict[str, Arc] = {}  # made when they are first needed, as are the others
        self._peers: dict[str, Peers] = {}
        self._branches: dict[str, Branches] = {}
        self._kept: dict[int, list[Branch]] = {}  # by group
        self._pipes: dict[str, Pipe] = {}

    @property
    def ops(self) -> list[int]:
        """The touching ops in which they answer on the host, in the order in which replay starts them."""
        posted = (op for op in self._steps[self._rank] if op >= 0 and not self._group(op).on_device)
        return sorted(op for op in posted if self._plays(op) and self._answers(op))

    def needs(self) -> dict[Need, Ref]:
        """The payloads of those ops, in their order."""
        return {need: ref for op in self.ops for need, ref in self.payloads(op).items()}

    def job(self, op: int, posts: Int64, pool: Pool[Need]) -> tuple[str, Job]:
        """What to do in a touching op, and what it must not run beside; `posts`: when each virtual member posts, ns."""
        if self._call(op).kind is OpKind.SEND_RECV:
            name, job = self._message(op, int(posts[0]))
        elif self._call(op).kind in PAIRWISE:
            name, job = self._pairs(op, posts)
        elif self._along_trees(op):
            name, job = self._tree(op, posts)
        else:
            name, job = self._arc(op, posts)
        needs = self.payloads(op)

        def run() -> None:
            job({need.part: pool.take(need).address for need in needs})
            for need in needs:
                pool.release(need)

        return name, run

    # -- what each kind of operation takes ---------------------------------------------------------------------------

    def _arc(self, op: int, posts: Int64) -> tuple[str, Callable[[dict[str, int]], None]]:
        place, group = self._place(op), self._group(op)
        after, of_arc = self.arc(op, posts)
        name, pace = f"{group_name(self._schedule, op)}-arc{place}", self._pace(op, of_arc)
        work = engine_op(self._call(op), group.size, group.sandbox[place])

        def run(given: dict[str, int]) -> None:
            if name not in self._arcs_of:
                self._arcs_of[name] = Arc(self._fifos, *self._party(op, group), after)
            self._arcs_of[name].run(work, self._contribution(given), pace)

        return name, run

    def _tree(self, op: int, posts: Int64) -> tuple[str, Callable[[dict[str, int]], None]]:
        place, group = self._place(op), self._group(op)
        name, rank = f"{group_name(self._schedule, op)}-branches{place}", group.sandbox[place]
        pace, work = self._pace(op, self.of_all(op, posts)), engine_op(self._call(op), group.size, rank, tree=True)

        def run(given: dict[str, int]) -> None:
            if name not in self._branches:
                self._branches[name] = Branches(self._fifos, *self._party(op, group), rank, group.nodes)
            self._branches[name].run(work, self._contribution(given), pace)

        return name, run

    def _pairs(self, op: int, posts: Int64) -> tuple[str, Callable[[dict[str, int]], None]]:
        place, group = self._place(op), self._group(op)
        name, rank = f"{group_name(self._schedule, op)}-peers{place}", group.sandbox[place]
        pace, work = self._pace(op, self.of_all(op, posts)), engine_op(self._call(op), group.size, rank)

        def run(given: dict[str, int]) -> None:
            if name not in self._peers:
                self._peers[name] = Peers(self._fifos, *self._party(op, group), rank)
            self._peers[name].run(work, given.get("result", 0), pace)

        return name, run

    def _message(self, op: int, post: int) -> tuple[str, Callable[[dict[str, int]], None]]:
        ops, name = self._schedule.ops, pipe_name(self._schedule, op)
        size = message_bytes(self._steps[self._rank][op], int(ops.nbytes[op]))
        cost = int(ops.latency[op] + ops.transfer[op])

        def run(given: dict[str, int]) -> None:
            if name not in self._pipes:
                self._pipes[name] = Pipe(self._fifos, name)
            pipe = self._pipes[name]
            if self._call(op).sends:
                time.sleep(max(0.0, (post - now()) / 1e9))
                pipe.recv(0, size)
            else:
                pipe.send(given.get("result", 0), size, post, cost)

        return name, run

    # -- lookups -----------------------------------------------------------------------------------------------------

    def member(self, op: int) -> int:
        """The rank in its group that the sandbox rank has in a collective."""
        return self._group(op).sandbox[self._place(op)]

    def arc(self, op: int, posts: Int64) -> tuple[int, Int64]:
        """The sandbox member before the arc that ends at the sandbox rank, and when the arc's members post."""
        place, lengths = self._before(op), self._arcs(op)
        first = int(lengths[:place].sum())
        return self.before(op), posts[first : first + int(lengths[place])]

    def before(self, op: int) -> int:
        """The sandbox member that comes before the sandbox rank in the ring of a collective; it may be itself."""
        return self._group(op).sandbox[self._before(op)]

    def _plays(self, op: int) -> bool:
        return self._played is None or lane_of(self._schedule, op) in self._played

    def _answers(self, op: int) -> bool:
        """Whether virtual ranks have something to do for the sandbox rank in this op."""
        call = self._call(op)
        if call.kind is OpKind.SEND_RECV or call.kind in PAIRWISE:
            return bool(self._arcs(op).sum())
        if self._along_trees(op):
            return bool(self._kept_branches(op))
        return bool(self._arcs(op)[self._before(op)])

    def payloads(self, op: int) -> dict[Need, Ref]:
        """What they put in."""
        contribution, step = self._schedule.plain.contribution, self._steps[self._rank][op]
        if contribution == "replicas":
            return {}
        if step.call.kind not in REDUCTIONS:
            parts = {"result": None if step.call.sends else step.result}
        elif contribution == "zeros":
            parts = {}
        elif contribution == "exact" and self._along_trees(op):
            parts = {"result": step.result}
        elif contribution == "left":
            parts = {"rest": step.rest if self._carries_the_rest(op) else None}
        else:
            source = self._steps[self._global_rank(op, self._before(op))][op]
            final = step.result if step.call.kind is OpKind.ALL_REDUCE and contribution == "exact" else None
            parts = {"before": step.before, "after": source.after, "result": final}
        return {Need(op, part): ref for part, ref in parts.items() if ref is not None and ref.nbytes}

    def _contribution(self, given: dict[str, int]) -> Contribution:
        before, after, rest, final = (given.get(part, 0) for part in ("before", "after", "rest", "result"))
        match self._schedule.plain.contribution:
            case "exact":
                return Contribution.exact(before, final)
            case "prefolded":
                return Contribution.prefolded(before, after, final)
            case "replicas":
                return Contribution.replicas()
            case _:
                return Contribution.left(rest, final)

    def _carries_the_rest(self, op: int) -> bool:
        """Whether the arc that ends at the sandbox rank is the group's first one, or a branch that it keeps carries."""
        if self._along_trees(op):
            return any(branch.carries for branch in self._kept_branches(op))
        arcs = np.roll(self._arcs(op), 1)  # by the member at which the arc ends
        return int(np.flatnonzero(arcs)[0]) == self._place(op)

    def _along_trees(self, op: int) -> bool:
        return bool(self._schedule.ops.tree[op])

    def _kept_branches(self, op: int) -> list[Branch]:
        row, group = int(self._schedule.ops.group[op]), self._group(op)
        if row not in self._kept:
            place = group.sandbox[self._place(op)]
            self._kept[row] = branches(group.size, group.sandbox, place, group.nodes)
        return self._kept[row]

    def _call(self, op: int) -> Call:
        return self._steps[self._rank][op].call

    def _group(self, op: int) -> GroupPart:
        return self._schedule.plain.groups[int(self._schedule.ops.group[op])]

    def _party(self, op: int, group: GroupPart) -> tuple[str, int, tuple[int, ...]]:
        """What names the group to the engine."""
        return group_name(self._schedule, op), group.size, tuple(group.sandbox)

    def _rows(self, op: int) -> slice:
        touching = self._schedule.touching
        return slice(int(touching.member_ptr[op]), int(touching.member_ptr[op + 1]))

    def _arcs(self, op: int) -> Int64:
        return self._schedule.touching.arc[self._rows(op)]

    def _global_rank(self, op: int, place: int) -> int:
        return int(self._schedule.touching.rank[self._rows(op)][place])

    def _place(self, op: int) -> int:
        """The place of the sandbox rank among the sandbox members of the op."""
        return int(self._schedule.touching.rank[self._rows(op)].tolist().index(self._rank))

    def _before(self, op: int) -> int:
        """The place of the sandbox member that comes before it in the ring."""
        return (self._place(op) - 1) % len(self._arcs(op))

    def of_all(self, op: int, posts: Int64) -> Int64:
        """The posts of all members of the op's group; 0 of sandbox members."""
        of_all = np.zeros(self._group(op).size, np.int64)
        of_all[self._schedule.touching.virtual(op)] = posts
        return of_all

    def _pace(self, op: int, posts: Int64) -> Pace:
        return Pace(posts, int(self._schedule.ops.latency[op]), int(self._schedule.ops.transfer[op]))
