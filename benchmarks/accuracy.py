"""How far PRISM's predicted iteration is from the real one, for jobs whose compute is a timed sleep.

    python -m benchmarks.accuracy [--worlds 4,8] [--slots 1,2] [--runs 3] [JOB...]

Real: torch.distributed over gloo, one process a rank, all at once on this machine; the median iteration of each run,
and how far the runs' medians lie apart. Predicted: captured and calibrated on so many slots, replayed; communication
over loopback is taken to be free. The error is against the median of the real runs.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
from pathlib import Path

from prism.scenario import Calibrate, Network
from tests.gloo_reference import run_gloo
from tests.running import predict, scenario

PROGRAM = Path(__file__).parent / "programs" / "sleeping.py"
JOBS = ("data_parallel", "pipeline", "interleaved", "experts", "two_dimensional", "variable", "straggler")
ITERATIONS, WARMUP = 12, 2


def real_iterations(job: str, world: int) -> list[float]:
    """Milliseconds of each iteration after the warm-up, each from the last rank's end to the last rank's end."""
    output = run_gloo(PROGRAM, (job, str(ITERATIONS)), world, timeout=300)
    ends = []
    for text in output:
        times = [float(value) for value in re.findall(r"ITER ([\d.]+)", text)]
        ends.append([sum(times[: k + 1]) for k in range(len(times))])
    last = [max(rank[k] for rank in ends) for k in range(ITERATIONS)]
    return [b - a for a, b in zip(last[WARMUP - 1 :], last[WARMUP:], strict=False)]


def predicted(job: str, world: int, slots: int) -> float:
    """Milliseconds of the predicted median iteration."""
    given = scenario(
        PROGRAM, (job, str(ITERATIONS)), world, slots, calibrate=Calibrate(warmup=WARMUP), network=Network(model="none")
    )
    with tempfile.TemporaryDirectory() as folder:
        median = predict(given, Path(folder) / "out").result.iteration_ns_median
    assert median is not None
    return median / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("jobs", nargs="*", default=JOBS, help="jobs to run")
    parser.add_argument("--worlds", default="4,8", help="world sizes, separated by commas")
    parser.add_argument("--slots", default="1,2", help="slots to predict from, separated by commas")
    parser.add_argument("--runs", type=int, default=3, help="real runs of each job")
    options = parser.parse_args()
    print(f"{'job':<16} {'ranks':>5} {'real':>10} {'spread':>7} {'slots':>5} {'predicted':>10} {'error':>8}")
    errors = []
    for job in options.jobs:
        for world in map(int, options.worlds.split(",")):
            medians = [statistics.median(real_iterations(job, world)) for _ in range(options.runs)]
            real = statistics.median(medians)
            spread = (max(medians) - min(medians)) / real
            for slots in map(int, options.slots.split(",")):
                guess = predicted(job, world, slots)
                errors.append(abs(guess / real - 1))
                told = f"{guess:7.2f} ms {100 * (guess / real - 1):+7.2f} %"
                print(f"{job:<16} {world:5} {real:7.2f} ms {100 * spread:5.2f} % {slots:5} {told}", flush=True)
    print(f"mean error {100 * statistics.mean(errors):.2f} %, worst {100 * max(errors):.2f} %")


if __name__ == "__main__":
    main()
