"""From ranks that were timed one at a time to the graph of all of them, in the network of the scenario."""

from __future__ import annotations

from prism.core.graph import Graph
from prism.core.measuring.lead import Timings, run_ahead
from prism.prediction.communication import communication
from prism.scenario import Scenario


def together(graph: Graph, timings: Timings, scenario: Scenario) -> Graph:
    """The graph with the durations that its nodes have in the run of all ranks."""
    if not timings.slack.any():
        return graph.with_durations(timings.durations)
    costs = communication(graph, scenario, scenario.network).costs
    return graph.with_durations(run_ahead(graph, timings, costs.total))
