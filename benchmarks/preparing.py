"""What it takes to sum up the virtual ranks before an emulation, and to follow the sum while it runs.

    python -m benchmarks.preparing [--for 60] [SHAPE...]

Sandbox rank 0 of generated graphs, larger and larger: `long`, two ranks that compute longer after each post than the
operation takes, as tensor parallel hosts do; `streams`, the same with the operations behind streams, as on a GPU;
`wide`, the same in larger worlds; `stages`, a pipeline whose ranks post their receives ahead; `experts`, all_to_all on
eight ranks; `large`, pipeline x data x tensor parallel up to 8,192 ranks. A shape ends when a row has taken longer than
`--for` seconds. `sum` is processor time, `exponent` that of its growth with the nodes, `memory` what the columns made
for it took at most, `follow` how long it takes for an operation to work out when virtual ranks post and when it ends.
"""

from __future__ import annotations

import argparse
import math
import time
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.generated import Shape
from benchmarks.generated import graph as generated
from prism.core.emulation.summary import Clock, Summary, summarize
from prism.core.emulation.touching import Touching, find_touching
from prism.core.graph import Graph, Int64, OpKind, Stream, Timeline
from prism.core.timeline.replay import evaluate, make_plan
from tests.core.jobs import Job, expert_parallel, overlapped

COST_NS = 50


def streams(ops: int) -> Graph:
    """Two ranks whose hosts post ahead of their streams, and compute longer beside each operation than it takes."""
    job = Job(2)
    for rank in (0, 1):
        for _ in range(ops):
            job.lane(rank, Stream.HOST)
            job.compute(rank, 20)
            job.lane(rank, Stream.COMPUTE)
            job.compute(rank, 100)
            ready = job.record(rank)
            job.lane(rank, Stream.COMM)
            job.wait_event(rank, ready)
            op = job.post(rank, OpKind.ALL_REDUCE, 1)
            job.lane(rank, Stream.COMPUTE)
            job.compute(rank, 100)
            job.wait(rank, op)
    return job.graph()


def stages(micro_batches: int) -> Graph:
    """Four stages: each awaits a message it asked for one micro-batch ago, computes, and sends on."""
    job = Job(4)
    for rank in range(4):
        arriving = [job.recv(rank, rank - 1, 1)] if rank else []
        for _ in range(micro_batches):
            if rank:
                arriving.append(job.recv(rank, rank - 1, 1))
                job.wait(rank, arriving[-2])
            job.compute(rank, 1000)
            if rank < 3:
                job.send(rank, rank + 1, 1)
    for rank in (0, 1, 2):
        job.send(rank, rank + 1, 1)
    return job.graph()


SHAPES: dict[str, Callable[[], Iterator[Graph]]] = {
    "long": lambda: (overlapped(2, ops) for ops in (250, 500, 1000, 2000, 5000, 10000, 20000)),
    "streams": lambda: (streams(ops) for ops in (250, 500, 1000, 2000, 5000, 10000)),
    "wide": lambda: (overlapped(world, 100) for world in (16, 64, 256, 1024)),
    "stages": lambda: (stages(count) for count in (250, 500, 1000, 2000, 5000)),
    "experts": lambda: (expert_parallel(8, iterations, 10) for iterations in (5, 10, 20, 50)),
    "large": lambda: (generated(Shape(8, replicas, 8, 16, 4)) for replicas in (8, 32, 128)),
}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--for", dest="most", type=float, default=60.0, help="seconds of a row, the last of its shape")
    options = parser.parse_args()
    heads = f"{'shape':<8} {'ranks':>6} {'nodes':>10} {'ops':>6} {'paths':>10} {'needs':>8} {'relays':>6}"
    print(f"{heads} {'sum':>9} {'exponent':>8} {'memory':>9} {'follow':>8}")
    for shape in options.shapes or SHAPES:
        before: tuple[int, float] | None = None
        for graph in SHAPES[shape]():
            took = _row(shape, graph, before)
            if took > options.most:
                break
            before = (len(graph.nodes), took)


def _row(shape: str, graph: Graph, before: tuple[int, float] | None) -> float:
    """Measure and print one row; `before`: nodes and seconds of the one before. Returns the seconds."""
    plan, costs = make_plan(graph), np.full(len(graph.ops), COST_NS)
    timeline = evaluate(plan, graph.nodes["duration"], costs)
    touching = find_touching(graph, plan, timeline.op_start, [0])
    begun = time.process_time()
    summary = summarize(graph, plan, touching, graph.nodes["duration"], costs)
    took = time.process_time() - begun
    follow = _follow(touching, summary, costs, timeline)
    tracemalloc.start()
    summarize(graph, plan, touching, graph.nodes["duration"], costs)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    growth = f"{math.log(took / before[1]) / math.log(len(graph.nodes) / before[0]):8.2f}" if before else " " * 8
    ops, relays = len(touching.op), len(summary.need_ptr) - 1 - len(touching.op)
    print(
        f"{shape:<8} {graph.world_size:6} {len(graph.nodes):10,} {ops:6} {len(summary.ns):10,} "
        f"{len(summary.need):8,} {relays:6} {took:7.2f} s {growth} {most / 2**20:5.0f} MiB {follow:5.0f} us",
        flush=True,
    )
    return took


def _follow(touching: Touching, summary: Summary, costs: Int64, timeline: Timeline) -> float:
    """us an operation, where sandbox ranks post when the timeline says; the ends have to be its ends."""
    clock = Clock(touching, summary, costs)
    begun = time.process_time()
    for op in range(len(touching.op)):
        clock.posts(op)
        rows = slice(touching.member_ptr[op], touching.member_ptr[op + 1])
        clock.finish(op, timeline.node_end[touching.node[rows]].tolist())
    took = time.process_time() - begun
    assert clock.ends.tolist() == timeline.op_end[touching.op].tolist()
    return took / len(touching.op) * 1e6


if __name__ == "__main__":
    main()
