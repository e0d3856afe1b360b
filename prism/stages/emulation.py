"""Hybrid emulation as a stage: what its processes are given, and what is made of what they leave."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prism.core.emulation.communicator_memory import communicator_bytes, uses
from prism.core.emulation.lane_steps import record_of_lane
from prism.core.emulation.sandboxed import Sandboxed, error_vs_replay, iteration_ns, ops_of_posts
from prism.core.emulation.summary import summarize
from prism.core.emulation.touching import Touching, find_touching
from prism.core.graph import Graph, Int64, OpKind
from prism.core.record import PostStep, RankRecord
from prism.core.stage.world import World
from prism.core.timeline.analysis import iteration_ends
from prism.core.timeline.replay import evaluate, make_plan
from prism.core.timeline.trees import nodes_of
from prism.exhaustion import room_in
from prism.net.board import Board
from prism.net.schedule import BOARD, FIFOS, SCHEDULE, GroupPart, OpColumns, Plain, SandboxPart, Schedule
from prism.prediction.communication import along_trees, communication
from prism.result import EmulatedRank, EmulationResult, PrefetchResult
from prism.scenario import Scenario
from prism.stages.kinds import device_kind


@dataclass(frozen=True)
class Emulation:
    """One emulation that is prepared: its schedule, and the iterations that replay gives (ns, warm-up left out)."""

    schedule: Schedule
    replayed: list[int]

    @property
    def sandbox(self) -> tuple[int, ...]:
        """The ranks that run the program, ascending."""
        return self.schedule.touching.sandbox

    def held(self) -> Counter[str]:
        """The bytes of what was captured for the sandbox ranks, partial sums included, by the worker on whose host."""
        steps = [step for part in self.schedule.plain.parts for step in part.steps]
        refs = [ref for step in steps for ref in (step.result, step.before, step.after, step.rest) if ref is not None]
        found: Counter[str] = Counter()
        for ref in refs:
            found[ref.host] += ref.nbytes
        return found

    def lay_out(self, room: Path) -> Board:
        """Put into a directory what its processes share; returns the board that they write on. Raises Exhausted."""
        with room_in(room):
            self.schedule.save(room / SCHEDULE)
            (room / FIFOS).mkdir(mode=0o700)
            return Board.of(room / BOARD, self.schedule, create=True)


@dataclass(frozen=True)
class Emulated:
    """An emulation that is over."""

    emulation: Emulation
    board: Board
    world: World
    exchange: Sandboxed

    def result(self, warmup: int) -> EmulationResult:
        """What the sandbox ranks have shown."""
        sandbox, schedule = self.emulation.sandbox, self.emulation.schedule
        iterations = {rank: iteration_ns(self.exchange.walls(rank), warmup) for rank in sandbox}
        ranks = []
        for rank, (steps, sent, received) in zip(sandbox, self.board.moved.sum(axis=1).tolist(), strict=True):
            seen, reserved = self.world.ranks[rank], schedule.plain.reserved(rank)
            starved = seen.queued / (seen.ran + seen.queued) if seen.ran else None
            ranks.append(
                EmulatedRank(rank, iterations[rank], seen.peak_bytes, steps, sent, received, reserved, starved)
            )
        hits, misses, stalls = self.board.pool.sum(axis=0).tolist()
        return EmulationResult(
            sandbox=list(sandbox),
            ranks=ranks,
            error_vs_replay=error_vs_replay(iterations, dict.fromkeys(sandbox, self.emulation.replayed)),
            contribution=schedule.plain.contribution,
            groups=len(schedule.touching.groups),
            ops=len(schedule.touching.op),
            prefetch=PrefetchResult(hits=hits, misses=misses, stalls=stalls),
        )


def prepare(graph: Graph, scenario: Scenario, records: Mapping[int, RankRecord]) -> Emulation:
    """Reduce a calibrated graph to what concerns the sandbox ranks; one without a record does what its lane tells."""
    plan = make_plan(graph)
    costs = communication(graph, scenario, scenario.network).costs
    timeline = evaluate(plan, graph.nodes["duration"], costs.total)
    touched = find_touching(graph, plan, timeline.op_start, scenario.emulate.sandbox)
    trees = along_trees(graph, scenario)
    plain = _plain(graph, touched, records, scenario.emulate.contribution)
    for row, part in plain.groups.items():
        part.on_device = device_kind(scenario) == "cuda" and graph.groups[row].backend == "nccl"
    _reserve(plain, graph, touched, scenario.world.ranks_per_node)
    for row in np.unique(graph.ops["group"][touched.op[trees[touched.op]]]).tolist():
        plain.groups[row].nodes = nodes_of(graph.groups[row].ranks, scenario.world.ranks_per_node)
    schedule = Schedule(
        plain=plain,
        ops=_columns(graph, touched, costs.latency, costs.transfer, trees.astype(np.int64)),
        touching=touched,
        summary=summarize(graph, plan, touched, graph.nodes["duration"], costs.total),
        costs=costs.total,
    )
    replayed = np.diff(iteration_ends(graph, timeline), prepend=0)[max(scenario.calibrate.warmup, 1) :]
    return Emulation(schedule, replayed.tolist())


def _plain(graph: Graph, touched: Touching, records: Mapping[int, RankRecord], contribution: str) -> Plain:
    groups = {
        row: GroupPart(
            size=len(graph.groups[row].ranks),
            sandbox=[r for r, rank in enumerate(graph.groups[row].ranks) if rank in touched.sandbox],
            name=graph.groups[row].name,
            ranks=[rank for rank in graph.groups[row].ranks if rank in touched.sandbox],
        )
        for row in touched.groups.tolist()
    }
    parts = []
    for rank in touched.sandbox:
        record = records.get(rank) or record_of_lane(graph, rank)
        steps = [step for step in record.steps if isinstance(step, PostStep)]
        ops = [int(touched.number[op]) if op >= 0 else -1 for op in ops_of_posts(graph, record)]
        parts.append(SandboxPart(rank=rank, ops=ops, steps=steps))
    return Plain(contribution=contribution, groups=groups, parts=parts)


def _reserve(plain: Plain, graph: Graph, touched: Touching, ranks_per_node: int) -> None:
    """Say what memory NCCL's own communicators of the groups on devices would take, of those with virtual members."""
    posts: dict[tuple[int, int], list[PostStep]] = defaultdict(list)
    groups = graph.ops["group"][touched.op].tolist()
    for part in plain.parts:
        for op, step in zip(part.ops, part.steps, strict=True):
            if op >= 0:
                posts[groups[op], part.rank].append(step)
    for row, group in plain.groups.items():
        if group.on_device and len(group.sandbox) < group.size:
            nodes = nodes_of(graph.groups[row].ranks, ranks_per_node)
            group.communicator_bytes = [
                communicator_bytes(nodes, member, uses(posts[row, rank], member, group.size))
                for member, rank in zip(group.sandbox, group.ranks, strict=True)
            ]


def _columns(graph: Graph, touched: Touching, latency: Int64, transfer: Int64, trees: Int64) -> OpColumns:
    ops = graph.ops[touched.op]
    ends = graph.node_rank()[graph.posts[np.stack((graph.post_ptr[touched.op], graph.post_ptr[touched.op + 1] - 1))]]
    message = ops["kind"] == OpKind.SEND_RECV
    return OpColumns(
        group=ops["group"].astype(np.int64),
        sender=np.where(message, ends[0], -1),
        receiver=np.where(message, ends[1], -1),
        tag=ops["tag"].astype(np.int64),
        nbytes=ops["nbytes"].astype(np.int64),
        latency=latency[touched.op],
        transfer=transfer[touched.op],
        tree=trees[touched.op],
    )
