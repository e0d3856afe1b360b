"""What an all_reduce costs under PRISM, against real gloo on the same machine in the same run.

    python -m benchmarks.overhead [--worlds 2,8,32]

A captured all_reduce does more than gloo's: it is recorded, its payload is kept, and ranks take turns on the slots.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from tests.gloo_reference import run_gloo
from tests.running import capture, scenario

PROGRAM = Path(__file__).parent / "programs" / "all_reduce.py"
SMALL, LARGE = 16, 16 << 20  # elements of float32: 64 B and 64 MiB


def measure(elements: int, world: int, repetitions: int) -> tuple[float, float, float]:
    """Microseconds of one all_reduce under gloo and under PRISM, and of one copy of its data."""
    args = (str(elements), str(repetitions))
    real = "".join(run_gloo(PROGRAM, args, world, timeout=600))
    with tempfile.TemporaryDirectory() as folder:
        run = capture(scenario(PROGRAM, args, world), Path(folder) / "out")
    assert run.result.status == "ok", run.result.diagnosis
    ours = "".join(run.output)
    return _value("TIME", real), _value("TIME", ours), _value("COPY", real)


def _value(name: str, text: str) -> float:
    match = re.search(rf"{name} \d+ ([\d.]+)", text)
    assert match is not None, f"the program printed no {name} line"
    return float(match[1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", default="2,8,32", help="world sizes, separated by commas")
    worlds = [int(world) for world in parser.parse_args().worlds.split(",")]
    print(f"{'ranks':>5} {'payload':>8} {'gloo':>12} {'PRISM':>12} {'PRISM / gloo':>13} {'PRISM / copy':>13}")
    for elements, name, repetitions in ((SMALL, "64 B", 50), (LARGE, "64 MiB", 5)):
        for world in worlds:
            if elements == LARGE and world > 8:
                repetitions = 1
            gloo, ours, copy = measure(elements, world, repetitions)
            ratios = f"{ours / gloo:13.2f} {ours / copy:13.1f}"
            print(f"{world:5} {name:>8} {gloo:9.0f} us {ours:9.0f} us {ratios}", flush=True)


if __name__ == "__main__":
    main()
