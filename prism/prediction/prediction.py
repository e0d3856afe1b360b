"""From a calibrated graph to predicted times: the base, its variants, and what they say about each rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prism.core.diagnosis import Warning
from prism.core.graph import Graph, Timeline
from prism.core.timeline.analysis import Analysis, analyse
from prism.core.timeline.attribution import stragglers
from prism.core.timeline.engine import simulate
from prism.core.timeline.replay import evaluate, make_plan
from prism.prediction.communication import communication
from prism.prediction.variants import Job, middle, run_variants
from prism.result import PathStep, RankResult, Result, StragglerResult, WhatIfResult
from prism.scenario import LinkChange, Scenario, WhatIf


@dataclass(frozen=True)
class Prediction:
    """What replay found: the base's timeline and analysis, the variants' iterations, and what measurements lack."""

    timeline: Timeline
    analysis: Analysis
    stragglers: list[StragglerResult]
    what_if: list[WhatIfResult]
    warnings: list[Warning]

    def into(self, result: Result) -> None:
        """Write the numbers into a result."""
        analysis = self.analysis
        result.iteration_ns = analysis.iteration_ns
        result.iteration_ns_median = middle(analysis.iteration_ns)
        result.bubble_fraction = analysis.bubble_fraction
        result.critical_path = [PathStep(rank=s.rank, kind=s.kind, ns=s.ns) for s in analysis.critical_path]
        result.stragglers = self.stragglers
        result.what_if = self.what_if
        result.warnings += [warning for warning in self.warnings if warning not in result.warnings]
        if not result.ranks:
            result.ranks = [RankResult(rank=rank) for rank in range(result.world_size)]
        for rank in result.ranks:
            rank.compute_ns = int(analysis.compute_ns[rank.rank])
            rank.comm_ns = int(analysis.comm_ns[rank.rank])
            rank.wait_ns = int(analysis.wait_ns[rank.rank])
            rank.iterations = int(analysis.iterations[rank.rank])


def predict(graph: Graph, scenario: Scenario, variants: Sequence[WhatIf]) -> Prediction:
    """Replay the graph as it is, and its variants."""
    plan = make_plan(graph)
    base = communication(graph, scenario, scenario.network)
    if base.loads is None:
        timeline = evaluate(plan, graph.nodes["duration"], base.costs.total)
    else:
        timeline = simulate(graph, graph.nodes["duration"], base.costs, loads=base.loads).timeline
    analysis = analyse(graph, timeline, scenario.calibrate.warmup)
    late = [
        StragglerResult(rank=rank, caused_ns=ns, site=graph.sites[site] if site >= 0 else None)
        for rank, ns, site in stragglers(graph, timeline, analysis.window)
    ]
    median = middle(analysis.iteration_ns)
    results: list[WhatIfResult] = []
    notes = base.notes
    if median is not None:
        results, more = run_variants(Job(graph, plan, base), scenario, variants, median)
        notes = notes + more
    warnings = [Warning(kind="extrapolated", summary=note) for note in dict.fromkeys(notes)]
    return Prediction(timeline, analysis, late, results, [*warnings, *_doubts(analysis, scenario, variants)])


def _doubts(analysis: Analysis, scenario: Scenario, variants: Sequence[WhatIf]) -> Iterator[Warning]:
    """What may make the numbers mean something else than they seem to."""
    marks = analysis.iterations
    if not analysis.iteration_ns:
        yield Warning(
            kind="no_iterations",
            summary=f"no iteration was seen after a warm-up of {scenario.calibrate.warmup}: an iteration ends at the "
            "step of a torch optimizer; iteration.marker names another function, calibrate.warmup a shorter warm-up",
        )
    stepping = marks[marks > 0]
    if stepping.size and stepping.min() < stepping.max():
        fewest, most = int(stepping.min()), int(stepping.max())
        ranks = [int(rank) for rank in (marks == fewest).nonzero()[0]]
        yield Warning(
            kind="unequal_iterations", summary=f"some ranks ended {fewest} iterations and others {most}", ranks=ranks
        )
    changing = [variant for variant in variants if variant.network.inter_node != LinkChange()]
    idle = [variant.name for variant in changing if variant.world(scenario.world).nodes == 1]
    if idle:
        yield Warning(
            kind="no_effect",
            summary=f"{', '.join(idle)}: inter_node changes nothing, for all ranks are on one node "
            f"(world.ranks_per_node is {scenario.world.ranks_per_node})",
        )
