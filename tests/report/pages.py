"""Reports of jobs that nobody ran: a pipeline with replicas and shards, as large as one likes."""

from __future__ import annotations

import numpy as np

from benchmarks.generated import Shape, graph
from prism.core.events import PeakBreakdown
from prism.core.graph import Graph, NodeKind, Table
from prism.core.laps import LAP, LapEnd
from prism.core.timeline.analysis import analyse
from prism.core.timeline.attribution import stragglers
from prism.core.timeline.network import LinkClass, Network, op_costs
from prism.core.timeline.replay import evaluate, make_plan
from prism.report.html import render_html
from prism.report.surroundings import Surroundings
from prism.result import PathStep, RankResult, Result, StragglerResult, WhatIfResult

LINKS = Network("alpha-beta", LinkClass(450 * 10**9, 3_000), LinkClass(50 * 10**9, 8_000))


def page_of(replicas: int) -> str:
    """The report of a pipeline of 8 stages with 8 shards and so many replicas."""
    job = graph(Shape(stages=8, replicas=replicas, shards=8, micro_batches=4, layers=2))
    timeline = evaluate(make_plan(job), job.nodes["duration"].astype(np.int64), op_costs(job, LINKS, 8).total)
    found = analyse(job, timeline, 0)
    result = Result(scenario="pipeline", status="ok", world_size=job.world_size, nodes=len(job.nodes), ops=len(job.ops))
    result.iteration_ns, result.iteration_ns_median = found.iteration_ns, found.iteration_ns[0]
    result.bubble_fraction = found.bubble_fraction
    result.critical_path = [PathStep(rank=step.rank, kind=step.kind, ns=step.ns) for step in found.critical_path]
    late = stragglers(job, timeline, found.window)
    result.stragglers = [StragglerResult(rank=rank, caused_ns=ns) for rank, ns, _ in late]
    spent = zip(found.compute_ns.tolist(), found.comm_ns.tolist(), found.wait_ns.tolist(), strict=True)
    parts = PeakBreakdown(parameters=1 << 18, gradients=1 << 18, optimizer=1 << 18, activations=1 << 18, other=0)
    result.ranks = [
        RankResult(rank=rank, compute_ns=compute, comm_ns=comm, wait_ns=wait, peak_bytes=1 << 20, peak_breakdown=parts)
        for rank, (compute, comm, wait) in enumerate(spent)
    ]
    result.what_if = [
        WhatIfResult(name=f"slow factor={factor}", iteration_ns_median=factor * found.iteration_ns[0], slowdown=factor)
        for factor in (2, 3)
    ]
    around = Surroundings(capacity=2 << 20, laps={rank: laps_of(job, rank) for rank in range(job.world_size)})
    return render_html(result, job, timeline, "pipeline.yaml", 8, around)


def laps_of(job: Graph, rank: int) -> Table:
    """A course of memory that fits the lane of a rank, and goes up and down."""
    low, high = job.lane_ptr[rank : rank + 2]
    kinds = job.nodes["kind"][low:high]
    told = kinds[(kinds == NodeKind.POST) | (kinds == NodeKind.MARK)]
    laps = np.zeros(len(told) + 1, LAP)
    laps["end"][:-1] = np.where(told == NodeKind.MARK, LapEnd.MARK, LapEnd.POST)
    laps["end"][-1] = LapEnd.END
    laps["most"] = (1 << 20) - (np.arange(len(laps)) * 7 + rank) % 16 * 50_000
    return laps
