"""From a calibrated graph to predicted times: the base, its variants, and what they say about each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from prism.core.analysis import Analysis, analyse
from prism.core.graph import Graph, Timeline
from prism.core.network import LinkClass, Network, op_costs
from prism.core.replay import Plan, evaluate, make_plan, slow
from prism.result import PathStep, RankResult, Result, WhatIfResult
from prism.scenario import Link, Scenario, WhatIf
from prism.scenario import Network as NetworkBlock


@dataclass(frozen=True)
class Prediction:
    """What replay found: the base's timeline and analysis, and the variants' median iterations."""

    timeline: Timeline
    analysis: Analysis
    what_if: list[WhatIfResult]

    def into(self, result: Result) -> None:
        """Write the numbers into a result."""
        analysis = self.analysis
        result.iteration_ns = analysis.iteration_ns
        result.iteration_ns_median = _median(analysis.iteration_ns) or None
        result.bubble_fraction = analysis.bubble_fraction
        result.critical_path = [PathStep(rank=s.rank, kind=s.kind, ns=s.ns) for s in analysis.critical_path]
        result.what_if = self.what_if
        if not result.ranks:
            result.ranks = [RankResult(rank=rank) for rank in range(result.world_size)]
        for rank in result.ranks:
            rank.compute_ns = int(analysis.compute_ns[rank.rank])
            rank.comm_ns = int(analysis.comm_ns[rank.rank])
            rank.wait_ns = int(analysis.wait_ns[rank.rank])
            rank.iterations = int(analysis.iterations[rank.rank])


def predict(graph: Graph, scenario: Scenario, variants: Sequence[WhatIf]) -> Prediction:
    """Replay the graph as it is, and once for each variant."""
    plan, warmup = make_plan(graph), scenario.calibrate.warmup
    costs = op_costs(graph, _network(scenario.network), scenario.world.ranks_per_node)
    timeline = evaluate(plan, graph.nodes["duration"], costs)
    analysis = analyse(graph, timeline, warmup)
    base = _median(analysis.iteration_ns)
    results = [_variant(plan, graph, scenario, variant, base) for variant in variants] if base else []
    return Prediction(timeline, analysis, results)


def _variant(plan: Plan, graph: Graph, scenario: Scenario, variant: WhatIf, base: int) -> WhatIfResult:
    durations = slow(graph, variant.slow.ranks, variant.slow.factor) if variant.slow else graph.nodes["duration"]
    network = _network(variant.network.applied(scenario.network))
    timeline = evaluate(plan, durations, op_costs(graph, network, scenario.world.ranks_per_node))
    iteration = _median(analyse(graph, timeline, scenario.calibrate.warmup).iteration_ns)
    return WhatIfResult(name=variant.name, iteration_ns_median=iteration, slowdown=iteration / base)


def _network(block: NetworkBlock) -> Network:
    kind = "none" if block.model == "none" else "alpha-beta"
    return Network(kind, _link(block.intra_node), _link(block.inter_node))


def _link(link: Link) -> LinkClass:
    return LinkClass(bandwidth=link.bandwidth, latency=link.latency)


def _median(values: Sequence[int]) -> int:
    return round(median(values)) if values else 0
