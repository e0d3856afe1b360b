"""What if: the variants of a replay.

Most variants change durations and costs only; they are replayed in blocks, a leading axis of `evaluate`. What depends
on the schedule (shared links, a slow rank by the clock, a rank that stops) is run one by one by the event queue.
Variants that change the graph itself, and change it alike, have a graph and a plan of their own
(prism/prediction/changes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from prism.core.graph import Graph, Int64, InvalidGraph, NodeKind, OpKind, Timeline
from prism.core.timeline.analysis import iteration_ends
from prism.core.timeline.engine import NEVER, Outcome, Stop, simulate
from prism.core.timeline.replay import Plan, evaluate, jitter, make_plan, slow
from prism.core.timeline.throttle import Throttle
from prism.prediction.changes import changed_graph, changes
from prism.prediction.communication import Communication, communication
from prism.result import StalledRank, WhatIfResult
from prism.scenario import Scenario, WhatIf
from prism.scenario.flaw import Flaw, Path

BLOCK = 1 << 22
"""Nodes of all replays of a block together: some 32 MiB a column."""

PERCENTILES = (5, 50, 95, 99)


class Job(NamedTuple):
    """What is replayed: a graph, its plan, and what the scenario's network makes of it."""

    graph: Graph
    plan: Plan
    network: Communication


class _Replay(NamedTuple):
    """One replay of a variant; a variant with jitter has several."""

    variant: int
    durations: Int64
    communication: Communication


def run_variants(
    job: Job, scenario: Scenario, variants: Sequence[WhatIf], base: int
) -> tuple[list[WhatIfResult], list[str]]:
    """The result of each variant, and what measured tables leave open; job and base are the prediction's own.

    Raises ScenarioError where the graph does not allow what a variant changes of it.
    """
    results: dict[int, WhatIfResult] = {}
    notes = list[str]()
    alike: dict[bytes, list[int]] = {}
    for index, variant in enumerate(variants):
        alike.setdefault(changes(variant), []).append(index)
    for indices in alike.values():
        chosen = [variants[index] for index in indices]
        found, more = _run(_changed(job, scenario, indices[0], chosen[0]), scenario, chosen, base)
        results |= zip(indices, found, strict=True)
        notes += more
    return [results[index] for index in range(len(variants))], notes


def _changed(job: Job, scenario: Scenario, index: int, variant: WhatIf) -> Job:
    """The job with the changes of the variant at this index to its graph."""
    path: Path = ("what_if", index)
    place = scenario.path or "scenario"
    try:
        graph = changed_graph(job.graph, variant)
        if graph is job.graph:
            return job
        return Job(graph, make_plan(graph), communication(graph, scenario, scenario.network))
    except Flaw as flaw:
        raise Flaw((*path, *flaw.path), f"{variant.name}: {flaw.what}", place) from None
    except InvalidGraph as error:
        raise Flaw(path, f"{variant.name}: with its changes {error}", place) from None


def _run(job: Job, scenario: Scenario, variants: Sequence[WhatIf], base: int) -> tuple[list[WhatIfResult], list[str]]:
    """The results of variants that have this job's graph."""
    warmup, notes = scenario.calibrate.warmup, list(job.network.notes)
    times: list[list[int]] = [[] for _ in variants]
    stalled: list[list[StalledRank]] = [[] for _ in variants]
    block: list[_Replay] = []
    for replay in _replays(job, scenario, variants, notes):
        variant = variants[replay.variant]
        if _depends_on_the_schedule(replay, variant):
            outcome = _simulate(job.graph, replay, variant)
            times[replay.variant] += iteration_times(job.graph, outcome.timeline, warmup)
            stalled[replay.variant] += _stalled(job.graph, outcome)
            continue
        block.append(replay)
        if len(block) * len(job.graph.nodes) >= BLOCK:
            _evaluate(job, block, times, warmup)
    _evaluate(job, block, times, warmup)
    return [_result(*row, base) for row in zip(variants, times, stalled, strict=True)], notes


def _depends_on_the_schedule(replay: _Replay, variant: WhatIf) -> bool:
    timed = variant.slow is not None and variant.slow.is_timed
    return replay.communication.loads is not None or variant.fail is not None or timed


def iteration_times(graph: Graph, timeline: Timeline, warmup: int) -> list[int]:
    """The times of the iterations after the warm-up that all their ranks end, in ns."""
    marks = np.flatnonzero(graph.nodes["kind"] == NodeKind.MARK)
    missing = graph.nodes["ref"][marks][timeline.node_end[marks] == NEVER]
    ends = iteration_ends(graph, timeline)
    times: list[int] = np.diff(ends[: missing.min(initial=len(ends))], prepend=0)[warmup:].tolist()
    return times


def middle(values: Sequence[int]) -> int | None:
    """The median, rounded; None of nothing, or of nothing but zeros."""
    return (round(median(values)) or None) if values else None


def _replays(job: Job, scenario: Scenario, variants: Sequence[WhatIf], notes: list[str]) -> Iterator[_Replay]:
    for index, variant in enumerate(variants):
        block, chosen = variant.network.applied(scenario.network), job.network
        if block != scenario.network:
            chosen = communication(job.graph, scenario, block)
            notes += chosen.notes
        for durations in _durations(job.graph, variant):
            yield _Replay(index, durations, chosen)


def _durations(graph: Graph, variant: WhatIf) -> Iterator[Int64]:
    """The durations of each replay of a variant."""
    durations: Int64 = graph.nodes["duration"]
    if variant.slow and not variant.slow.is_timed:
        durations = slow(graph, variant.slow.ranks, variant.slow.factor)
    if variant.speed:
        durations = np.rint(durations * variant.speed.factor).astype(np.int64)
    if not variant.jitter:
        yield durations
        return
    for draw in range(variant.jitter.draws):
        yield jitter(durations, variant.jitter.sigma, variant.jitter.seed, draw)


def _evaluate(job: Job, block: list[_Replay], times: list[list[int]], warmup: int) -> None:
    """Replay a block at one stroke, note the iterations, and empty it."""
    if not block:
        return
    durations = np.stack([replay.durations for replay in block])
    costs = np.stack([replay.communication.costs.total for replay in block])
    timeline = evaluate(job.plan, durations, costs)
    columns = (timeline.node_start, timeline.node_end, timeline.op_start, timeline.op_end)
    for row, replay in enumerate(block):
        one = Timeline(*(column[row] for column in columns))
        times[replay.variant] += iteration_times(job.graph, one, warmup)
    block.clear()


def _simulate(graph: Graph, replay: _Replay, variant: WhatIf) -> Outcome:
    throttle = None
    if variant.slow and variant.slow.is_timed:
        chosen = variant.slow
        throttle = Throttle(chosen.ranks, chosen.factor, chosen.since or 0, chosen.until, chosen.period)
    stop = Stop(variant.fail.rank, variant.fail.at) if variant.fail else None
    network = replay.communication
    return simulate(graph, replay.durations, network.costs, loads=network.loads, throttle=throttle, stop=stop)


def _stalled(graph: Graph, outcome: Outcome) -> list[StalledRank]:
    """One row a rank: the lane that stalls first, and the first op that it waits for in vain."""
    first: dict[int, StalledRank] = {}
    for stall in sorted(outcome.stalls, key=lambda stall: (stall.rank, stall.since)):
        op = _awaited(graph, outcome, stall.node)
        row = StalledRank(rank=stall.rank, since_ns=stall.since)
        if op is not None:
            row.op = OpKind(graph.ops["kind"][op]).name.lower()
            row.group = graph.groups[graph.ops["group"][op]].name
        first.setdefault(stall.rank, row)
    return list(first.values())


def _awaited(graph: Graph, outcome: Outcome, node: int) -> int | None:
    if graph.nodes["kind"][node] != NodeKind.WAIT:
        return None
    row = graph.nodes["ref"][node]
    ops = graph.wait_ops[graph.wait_ptr[row] : graph.wait_ptr[row + 1]]
    return next((int(op) for op in ops if outcome.timeline.op_end[op] == NEVER), None)


def _result(variant: WhatIf, times: list[int], stalled: list[StalledRank], base: int) -> WhatIfResult:
    iteration = None if stalled else middle(times)
    slowdown = None if iteration is None else iteration / base
    result = WhatIfResult(name=variant.name, iteration_ns_median=iteration, slowdown=slowdown, stalled=stalled)
    if variant.jitter and times:
        values = np.rint(np.percentile(times, PERCENTILES)).astype(int).tolist()
        result.percentiles = {f"p{percent}": value for percent, value in zip(PERCENTILES, values, strict=True)}
    return result
