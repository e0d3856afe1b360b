"""How far PRISM's predicted iteration is from the real one.

    python -m benchmarks.accuracy [--worlds 4,8] [--slots 1,2] [--runs 3] [--iterations N] [--json FILE] [NAME...]

NAME is a job or a section: `sleeping`, jobs whose compute is a timed sleep (programs/sleeping.py), so that any number
of ranks is real on a few cores; `what_if`, where one rank of the real job computes 1.4 times as long, and PRISM has the
job without that and a variant with it; `real_compute`, the reference jobs of the tests, which want two cores a rank:
one for its compute, and one for the threads of gloo.

Real: torch.distributed over gloo, one process a rank, all at once on this machine; the median iteration of each run,
and as spread how far the runs' medians lie apart. Predicted: captured and calibrated on so many slots, replayed with
the costs that single operations have on this machine, measured first (benchmarks/loopback.py): on ranks that have slept
where compute is a sleep, else on ranks that have computed. Where compute is real there is a prediction beside each real
run, since the speed of a shared machine changes within minutes; they have their own spread. The error is that of the
median prediction against the median of the real runs.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.loopback import Callers, Cost, measure, table
from prism.scenario import Calibrate, Network, Output, Slow, WhatIf, World
from tests.gloo_reference import run_gloo
from tests.running import predict, scenario

PROGRAMS = Path(__file__).parent / "programs"
REFERENCE = Path(__file__).parents[1] / "tests" / "jobs"
TIMEOUT_S = 500.0


class Section(NamedTuple):
    """How long the jobs of a section run, their first iterations that are left out, and how they are predicted."""

    iterations: int
    warmup: int
    callers: Callers = "slept"
    anew: bool = False  # whether there is a prediction for each real run


class Job(NamedTuple):
    """A program, its arguments for real and under PRISM (N: the number of iterations), and the variant predicted."""

    section: str
    script: Path
    real: str
    captured: str
    variant: WhatIf | None = None


class Row(msgspec.Struct):
    """One prediction against the real runs; times in ms, error and spread as fractions of `real_ms`."""

    section: str
    job: str
    ranks: int
    runs_ms: list[float]
    real_ms: float
    spread: float
    slots: int
    predictions_ms: list[float]
    predicted_ms: float
    error: float


SECTIONS = {"sleeping": Section(12, 2), "what_if": Section(12, 2), "real_compute": Section(120, 20, "awake", anew=True)}
SLEEPING = (
    "data_parallel", "variable", "pipeline", "zero_bubble", "interleaved", "breadth_first", "two_dimensional",
    "experts",
)  # fmt: skip
SLOWED = "N 1 1.4"  # rank 1 computes 1.4 times as long
SLOW = WhatIf(name="slow", slow=Slow(ranks=(1,), factor=1.4))


def _jobs() -> dict[str, Job]:
    script = PROGRAMS / "sleeping.py"
    jobs = {name: Job("sleeping", script, f"{name} N", f"{name} N") for name in SLEEPING}
    jobs["straggler"] = Job("sleeping", script, f"data_parallel {SLOWED}", f"data_parallel {SLOWED}")
    for name in ("data_parallel", "pipeline"):
        jobs[f"{name}+slow"] = Job("what_if", script, f"{name} {SLOWED}", f"{name} N", SLOW)
    for name in ("ddp", "fsdp2", "tp", "pp", "moe", *(["hf"] if find_spec("transformers") else [])):
        jobs[name] = Job("real_compute", REFERENCE / f"job_{name}.py", "N", "N")
    return jobs


JOBS = _jobs()


def real_median(job: Job, world: int, section: Section) -> float:
    """The median iteration of one real run in ms, each from the last rank's end to the last rank's end."""
    args = job.real.replace("N", str(section.iterations)).split()
    output = run_gloo(PROGRAMS / "marked.py", (str(job.script), *args), world, TIMEOUT_S)
    marks = [[int(mark) for mark in re.findall(r"\d+", text.rpartition("MARKS")[2])] for text in output]
    ends = [max(ranks) for ranks in zip(*marks, strict=True)]
    median: float = statistics.median(b - a for a, b in pairwise(ends[section.warmup - 1 :])) / 1e6
    return median


def predicted(job: Job, world: int, slots: int, section: Section, costs: Path) -> float:
    """The predicted median iteration in ms."""
    given = scenario(
        job.script,
        tuple(job.captured.replace("N", str(section.iterations)).split()),
        world,
        slots,
        calibrate=Calibrate(warmup=section.warmup),
        network=Network(model="measured", table=str(costs)),
        what_if=(job.variant,) if job.variant else (),
        output=Output(formats=()),
    )
    given = msgspec.structs.replace(given, world=World(size=world, ranks_per_node=world))
    with tempfile.TemporaryDirectory() as folder:
        result = predict(given, Path(folder) / "out").result
    for warning in result.warnings:
        print(f"  warning: {warning.summary}")
    median = result.what_if[0].iteration_ns_median if job.variant else result.iteration_ns_median
    assert median is not None, f"{job.script.name}: no iteration after {section.warmup} of warm-up"
    return median / 1e6


def compare(name: str, world: int, slots: Sequence[int], runs: int, section: Section, costs: Path) -> list[Row]:
    """Run a job for real, predict it from each number of slots, and print a line for each."""
    job = JOBS[name]
    medians: list[float] = []
    guesses: dict[int, list[float]] = {count: [] for count in slots}
    for run in range(runs):
        medians.append(real_median(job, world, section))
        if section.anew or run == runs - 1:
            for count in slots:
                guesses[count].append(predicted(job, world, count, section, costs))
    real = statistics.median(medians)
    rows = []
    for count, told in guesses.items():
        guess = statistics.median(told)
        row = Row(job.section, name, world, medians, real, _spread(medians), count, told, guess, guess / real - 1)
        rows.append(row)
        ours = f"{guess:8.2f} ms {_spread(told):7.2%} {row.error:+8.2%}"
        print(f"{name:<18} {world:5} {real:8.2f} ms {row.spread:7.2%} {count:5} {ours}", flush=True)
    return rows


def _spread(times: Sequence[float]) -> float:
    """How far the times lie apart, as a fraction of their median."""
    return (max(times) - min(times)) / statistics.median(times)


def summary(rows: Sequence[Row]) -> str:
    """The mean and the worst error of each section and of all."""
    lines = []
    for section in [*dict.fromkeys(row.section for row in rows), "all"]:
        errors = [abs(row.error) for row in rows if section in (row.section, "all")]
        told = f"mean error {100 * statistics.mean(errors):.2f} %, worst {100 * max(errors):.2f} %"
        lines.append(f"{section}: {len(errors)} predictions, {told}")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    choices = [*SECTIONS, *JOBS]
    parser.add_argument("jobs", nargs="*", default=["sleeping", "what_if"], help=", ".join(choices))
    parser.add_argument("--worlds", type=_numbers, default=[4, 8], help="world sizes, separated by commas")
    parser.add_argument("--slots", type=_numbers, default=[1, 2], help="slots to predict from, separated by commas")
    parser.add_argument("--runs", type=int, default=3, help="real runs of each job")
    parser.add_argument("--iterations", type=int, help="iterations of each run, warm-up included")
    parser.add_argument("--json", type=Path, help="a file for all figures, and the costs used")
    options = parser.parse_args()
    unknown = [name for name in options.jobs if name not in choices]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(choices)}")
    return options


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _costs(worlds: Sequence[int], callers: Callers) -> list[Cost]:
    """What operations cost on this machine, for groups of two and of all ranks."""
    return [cost for members in sorted({2, *worlds}) for cost in measure(members, callers)]


def _crowded(worlds: Sequence[int]) -> str:
    """A warning where the threads of gloo have no cores of their own; empty where they have."""
    cores = len(os.sched_getaffinity(0))
    if 2 * max(worlds) <= cores:
        return ""
    return (
        f"  warning: {max(worlds)} ranks that compute and {cores} cores: the threads of gloo take cores from compute, "
        "which no cost of an operation holds"
    )


def main() -> None:
    """Print the table."""
    options = _options()
    chosen = {name: job for name, job in JOBS.items() if not {name, job.section}.isdisjoint(options.jobs)}
    rows: list[Row] = []
    costs: dict[Callers, list[Cost]] = {}
    ours = f"{'predicted':>11} {'spread':>7} {'error':>8}"
    print(f"{'job':<18} {'ranks':>5} {'real':>11} {'spread':>7} {'slots':>5} {ours}")
    with tempfile.TemporaryDirectory() as folder:
        for name, job in chosen.items():
            section = SECTIONS[job.section]
            section = section._replace(iterations=options.iterations or section.iterations)
            file = Path(folder) / f"{section.callers}.csv"
            if section.callers not in costs:
                costs[section.callers] = _costs(options.worlds, section.callers)
                file.write_text(table(costs[section.callers]), encoding="utf-8")
                if section.callers == "awake" and (warning := _crowded(options.worlds)):
                    print(warning)
            for world in options.worlds:
                rows += compare(name, world, options.slots, options.runs, section, file)
    print(summary(rows))
    if options.json:
        told = {callers: [cost._asdict() for cost in measured] for callers, measured in costs.items()}
        options.json.write_bytes(msgspec.json.encode({"rows": rows, "costs": told}))


if __name__ == "__main__":
    main()
