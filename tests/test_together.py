"""From ranks that were timed one at a time to the graph of all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism.core.graph import Group, NodeKind, OpKind
from prism.core.measuring.lead import Timings
from prism.prediction.together import together
from prism.scenario import Network, Program, Scenario, World
from tests.core.jobs import MIB, MS, Job


def test_what_a_device_waits_for_in_the_scenarios_network_its_host_gains() -> None:
    job = Job(2)
    for rank in range(2):
        for _ in range(2):
            job.compute(rank, 10 * MS)
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 64 * MIB))
    graph = job.graph()
    graph = replace(graph, groups=tuple(Group(group.name, group.ranks, "nccl") for group in graph.groups))
    computing = graph.nodes["kind"] == NodeKind.COMPUTE
    durations = np.where(computing, 10 * MS, 0)
    timed = Timings(durations, np.where(computing, 4 * MS, 0), np.zeros(len(graph.nodes), bool))

    def lasts(**network: object) -> list[int]:
        given = Scenario(name="j", program=Program(module="j"), world=World(size=2), network=Network(**network))
        found: list[int] = together(graph, timed, given).nodes["duration"][computing].tolist()
        return found

    assert lasts(model="none") == [10 * MS] * 4
    first, second, *_ = lasts()
    assert first == 10 * MS
    assert 6 * MS <= second < 10 * MS
