"""PRISM's trace of a job against that of torch's profiler: how large it is, and what it costs the program to make.

    python -m benchmarks.trace_size [--rounds 15] [--iterations 60] [--json]

Size: graph.prism, calibrated, against the Chrome traces of all ranks, of the same iterations. Cost: an iteration of a
program that only computes, as PRISM's calibration measures it and as it measures itself under the profiler, over that
of plain runs, the mean of the one just before and the one just after. The row `plain` compares each of those with the
one before it, and so tells what the machine itself does. Of each run the lower quartile of its iterations counts: what
else runs on the machine only ever makes them longer.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

import numpy as np

from prism.core.graph import Graph, NodeKind
from prism.scenario import Calibrate
from tests.gloo_reference import run_gloo
from tests.running import predict, scenario

ROOT = Path(__file__).parents[1]
STEPPED = ROOT / "benchmarks" / "programs" / "stepped.py"
ALONE = ROOT / "benchmarks" / "programs" / "transformer.py"
JOBS = ((ALONE, 1), (ROOT / "tests" / "jobs" / "job_ddp.py", 2))
WARMUP = 5


@dataclass(frozen=True)
class Size:
    """The bytes of both traces of a job."""

    job: str
    ranks: int
    iterations: int
    prism: int
    profiler: int


@dataclass(frozen=True)
class Cost:
    """Milliseconds of an iteration, the median of all runs, and the slowdown in each round: over plain runs, less 1."""

    name: str
    iteration_ms: float
    slowdowns: list[float]


def size(script: Path, ranks: int, iterations: int) -> Size:
    """Trace a job both ways."""
    with tempfile.TemporaryDirectory() as folder:
        given = scenario(script, (str(iterations),), ranks, slots=1)
        predict(given, Path(folder) / "out")
        profiled(script, ranks, iterations, Path(folder))
        traces = [Path(folder) / f"{rank}.json" for rank in range(ranks)]
        ours = (Path(folder) / "out" / "graph.prism").stat().st_size
        return Size(script.stem, ranks, iterations, ours, sum(trace.stat().st_size for trace in traces))


def plain(script: Path, iterations: int) -> float:
    """Milliseconds of an iteration of one rank."""
    return _step(run_gloo(STEPPED, ["-", str(script), str(iterations)], 1, timeout=600))


def profiled(script: Path, ranks: int, iterations: int, traces: Path) -> float:
    """The same under torch's profiler; the traces of all ranks go to a folder."""
    return _step(run_gloo(STEPPED, [str(traces), str(script), str(iterations)], ranks, timeout=600))


def calibrated(script: Path, iterations: int) -> float:
    """The same, as PRISM's calibration measures it."""
    given = scenario(script, (str(iterations),), 1, slots=1, calibrate=Calibrate(warmup=WARMUP))
    with tempfile.TemporaryDirectory() as folder:
        graph = predict(given, Path(folder) / "out").graph
    assert graph is not None
    return _typical(_computing(graph)[WARMUP:]) / 1e6


def costs(rounds: int, iterations: int) -> list[Cost]:
    """Run the program plainly, under PRISM, under the profiler, and so on; the last run is a plain one."""
    alone, prism, profiler = [plain(ALONE, iterations)], [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            prism.append(calibrated(ALONE, iterations))
            profiler.append(profiled(ALONE, 1, iterations, Path(folder)))
            alone.append(plain(ALONE, iterations))
    beside = [(before + after) / 2 for before, after in pairwise(alone)]
    rows = {"plain": alone[1:], "PRISM": prism, "profiler": profiler}
    compared = {"plain": alone[:-1], "PRISM": beside, "profiler": beside}
    return [
        Cost(name, median(times), [time / other - 1 for time, other in zip(times, compared[name], strict=True)])
        for name, times in rows.items()
    ]


def _step(output: Sequence[str]) -> float:
    """Of the first rank, after the warm-up."""
    steps = [float(value) for value in re.findall(r"^STEP ([\d.]+)", output[0], re.MULTILINE)]
    return _typical(steps[WARMUP - 1 :])


def _typical(iterations: Sequence[float]) -> float:
    return quantiles(iterations, n=4)[0]


def _computing(graph: Graph) -> list[int]:
    """How long a lone rank computes in each iteration, in ns."""
    done = np.cumsum(graph.nodes["duration"])
    ends: list[int] = np.diff(done[graph.nodes["kind"] == NodeKind.MARK], prepend=0).tolist()
    return ends


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="runs of each kind that are compared")
    parser.add_argument("--iterations", type=int, default=60, help="iterations of a run, of which 5 are warm-up")
    parser.add_argument("--json", action="store_true", help="print the figures of all rounds")
    options = parser.parse_args()
    sizes = [size(script, ranks, options.iterations) for script, ranks in JOBS]
    told = costs(options.rounds, options.iterations)
    if options.json:
        print(json.dumps({"size": [asdict(row) for row in sizes], "cost": [asdict(row) for row in told]}, indent=2))
        return
    print(f"{'job':<12} {'ranks':>5} {'iterations':>10} {'profiler':>13} {'PRISM':>10} {'profiler / PRISM':>16}")
    for row in sizes:
        traces = f"{row.profiler:11,} B {row.prism:8,} B {row.profiler / row.prism:16,.0f}"
        print(f"{row.job:<12} {row.ranks:5} {row.iterations:10} {traces}")
    print(f"\n{'run':<12} {'iteration':>10} {'slowdown':>9} {'quartiles of ' + str(options.rounds) + ' rounds':>26}")
    for cost in told:
        low, middle, high = (f"{100 * value:+.2f} %" for value in quantiles(cost.slowdowns, n=4, method="inclusive"))
        print(f"{cost.name:<12} {cost.iteration_ms:7.2f} ms {middle:>9} {low:>13} to {high}")


if __name__ == "__main__":
    main()
