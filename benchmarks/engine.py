"""The pruned engine's all_reduce between two adjacent sandbox ranks, against gloo's, and what a step costs.

    python -m benchmarks.engine [--rounds 5]

Two such ranks have no virtual one between them: all bytes go from process to process, as gloo's do. Steps are those of
one sandbox rank in a ring of many, with almost no data, beside the way of a byte through pipes to another process and
back; as many pairs of a sandbox rank and its virtual ones as are told run at one time.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from pathlib import Path

from tests.gloo_reference import run_gloo

PROGRAMS = Path(__file__).parent / "programs"
SIZES = ((16, "64 B", 50), (256 << 10, "1 MiB", 20), (16 << 20, "64 MiB", 5))  # elements of float32, name, repetitions
STEPS = ((64, 1, 400), (1024, 1, 25), (1024, 2, 25), (4096, 2, 6))  # members, pairs, repetitions


def gloo(elements: int, repetitions: int) -> float:
    """Microseconds of one all_reduce of two ranks under gloo."""
    return _time("".join(run_gloo(PROGRAMS / "all_reduce.py", (str(elements), str(repetitions)), 2, timeout=600)))


def engine(elements: int, repetitions: int) -> float:
    """Microseconds of one all_reduce of two sandbox ranks of two."""
    command = [sys.executable, str(PROGRAMS / "engine.py"), str(elements), str(repetitions)]
    return _time(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def steps(members: int, pairs: int, repetitions: int) -> tuple[float, float, float]:
    """Microseconds of a step, its CPU time, and those of a round trip through pipes."""
    command = [sys.executable, str(PROGRAMS / "steps.py"), str(members), str(pairs), str(repetitions)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"STEP \d+ ([\d.]+) ([\d.]+)\nPIPE ([\d.]+)", text)
    assert found is not None, "the program printed no STEP line"
    return float(found[1]), float(found[2]), float(found[3])


def _time(text: str) -> float:
    match = re.search(r"TIME \d+ ([\d.]+)", text)
    assert match is not None, "the program printed no TIME line"
    return float(match[1])


def main() -> None:
    """Print the table: medians of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each runs")
    rounds = parser.parse_args().rounds
    payloads(rounds)
    print()
    small_steps(rounds)


def payloads(rounds: int) -> None:
    """Print the engine beside gloo."""
    print(f"{'payload':>8} {'gloo':>12} {'engine':>12} {'engine / gloo':>14}")
    for elements, name, repetitions in SIZES:
        theirs, ours = [], []
        for _ in range(rounds):
            theirs.append(gloo(elements, repetitions))
            ours.append(engine(elements, repetitions))
        a, b = statistics.median(theirs), statistics.median(ours)
        print(f"{name:>8} {a:9.0f} us {b:9.0f} us {b / a:14.2f}", flush=True)


def small_steps(rounds: int) -> None:
    """Print what a step of a large ring costs."""
    print(f"{'members':>8} {'pairs':>6} {'step':>11} {'CPU':>11} {'step / pipe':>12}")
    for members, pairs, repetitions in STEPS:
        walls, cpus, pipes = zip(*(steps(members, pairs, repetitions) for _ in range(rounds)), strict=True)
        wall, cpu = statistics.median(walls), statistics.median(cpus)
        print(f"{members:8} {pairs:6} {wall:8.2f} us {cpu:8.2f} us {wall / statistics.median(pipes):12.2f}", flush=True)


if __name__ == "__main__":
    main()
