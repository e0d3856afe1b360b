"""How long it takes to replay large generated graphs, and how that grows.

    python -m benchmarks.replay

One core: OMP_NUM_THREADS=1. Planning (once a graph) and evaluating (once a variant) are counted apart.
"""

from __future__ import annotations

import resource
import time

import numpy as np

from benchmarks.generated import Shape, graph
from prism.core.timeline.network import LinkClass, Network, op_costs
from prism.core.timeline.replay import evaluate, make_plan

NETWORK = Network("alpha-beta", LinkClass(450 * 10**9, 3_000), LinkClass(50 * 10**9, 8_000))
SHAPES = (
    Shape(stages=8, replicas=1, shards=8, micro_batches=32, layers=4),
    Shape(stages=8, replicas=16, shards=8, micro_batches=32, layers=4),
    Shape(stages=8, replicas=128, shards=8, micro_batches=32, layers=1),
    Shape(stages=8, replicas=128, shards=8, micro_batches=32, layers=4),
)
VARIED = Shape(stages=8, replicas=16, shards=8, micro_batches=32, layers=3)
VARIANTS, BLOCK = 100, 10


def main() -> None:
    """Print the table."""
    print(f"{'ranks':>6} {'nodes':>11} {'plan':>8} {'evaluate':>9} {'ns/node':>8} {'peak memory':>12}")
    sizes, times = [], []
    for shape in SHAPES:
        job = graph(shape)
        start = time.perf_counter()
        plan = make_plan(job)
        planned = time.perf_counter() - start
        costs = op_costs(job, NETWORK, 8).total
        durations = job.nodes["duration"].astype(np.int64)
        runs = []
        for _ in range(3):
            start = time.perf_counter()
            evaluate(plan, durations, costs)
            runs.append(time.perf_counter() - start)
        sizes.append(len(job.nodes))
        times.append(sorted(runs)[1])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        each = 1e9 * times[-1] / sizes[-1]
        print(
            f"{shape.world:6} {sizes[-1]:11,} {planned:6.2f} s {times[-1]:7.3f} s {each:8.1f} {peak:8.2f} GiB",
            flush=True,
        )
    exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"evaluation grows with nodes to the power of {exponent:.2f}")
    job = graph(VARIED)
    plan, costs = make_plan(job), op_costs(job, NETWORK, 8).total
    base = job.nodes["duration"].astype(np.int64)
    start = time.perf_counter()
    for first in range(0, VARIANTS, BLOCK):
        factors = 1 + np.arange(first, first + BLOCK) / 100
        evaluate(plan, np.rint(base * factors[:, None]).astype(np.int64), costs)
    taken = time.perf_counter() - start
    print(f"{VARIANTS} variants of {len(job.nodes):,} nodes, {VARIED.world} ranks: {taken:.2f} s")


if __name__ == "__main__":
    main()
