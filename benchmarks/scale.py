"""How capture scales with the number of ranks: wall time, CPU time and memory of the whole command.

    python -m benchmarks.scale capture [--ranks 64,256,512,1024] [--gloo 8,16] [--program FILE] [--args "2"]
    python -m benchmarks.scale mesh [--meshes 2,4,8 2,4,32 2,4,128] [--micro-batches 4]

Each row is one `python -m prism.coordinator` with the stage capture alone, from its start to its exit, with the imports
of torch that a user pays for as well. CPU is that of all its processes. Private memory is what a rank says of itself
after the last step (PRIVATE lines of the default program); the host's is by how much MemAvailable fell at most, so it
counts what others take meanwhile. A turn is a slot that a rank gets back; turns are told for each second of CPU too.
`--gloo` runs the same job under torchrun in the same call. `mesh` captures two steps of a job that takes turns often:
a pipeline of tensor parallel blocks with data parallel replicas, with all its payloads.

The exponent is that of the power of the number of ranks that fits the rows best: 1 where twice the ranks take twice
the time. Small worlds draw it down, for what is paid once weighs more there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

PROGRAM = Path(__file__).parent / "programs" / "tiny_ddp.py"
MESHED = Path(__file__).parent / "programs" / "three_d.py"
TICK_S = 0.2
GIB = 1 << 30


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds, seconds of CPU of all its processes, and bytes of the host's memory at its most."""

    wall_s: float
    cpu_s: float
    host_bytes: int


@dataclass(frozen=True)
class Row:
    """One capture."""

    ranks: int
    cost: Cost
    private_mb: float | None
    switches: int
    nodes: int


class LowWater(threading.Thread):
    """Watches how much memory the host has to spare."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.start_bytes = self.least_bytes = _available()
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(TICK_S):
            self.least_bytes = min(self.least_bytes, _available())


def run(command: Sequence[str], folder: Path) -> tuple[str, Cost]:
    """Run a command in a folder; returns what it printed. Raises RuntimeError with its errors if it fails."""
    before, start, water = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), LowWater()
    water.start()
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False
    )
    wall = time.monotonic() - start
    water.over.set()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(
            f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout[-500:]}{done.stderr[-2000:]}"
        )
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, Cost(wall, cpu, water.start_bytes - water.least_bytes)


def capture(program: Path, args: Sequence[str], ranks: int) -> Row:
    """Capture a program with so many ranks on two slots."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenario = {
            "prism": 1, "name": "scale", "program": {"script": str(program), "args": list(args)},
            "world": {"size": ranks}, "devices": {"kind": "cpu", "slots": 2},
        }  # fmt: skip
        (folder / "scale.yaml").write_text(json.dumps(scenario))  # JSON is YAML too
        command = [sys.executable, "-m", "prism.coordinator", "scale.yaml", "--stages", "capture", "-q", "--json"]
        told, cost = run([*command, "--out", "out"], folder)
        logs = (log.read_text() for log in (folder / "out" / "ranks").glob("*.log"))
        private = [int(found) / 1e3 for log in logs for found in re.findall(r"PRIVATE (\d+)", log)]
    result = json.loads(told)
    return Row(ranks, cost, max(private, default=None), result["switches"], result["nodes"])


def gloo(program: Path, args: Sequence[str], ranks: int) -> Cost:
    """Run the same for real."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return run([*torchrun, str(program), *args], Path.cwd())[1]


def exponent(ranks: Sequence[int], seconds: Sequence[float]) -> float:
    """The power of the number of ranks that the seconds grow by."""
    return float(np.polyfit(np.log(ranks), np.log(seconds), 1)[0])


def print_captures(rows: Sequence[Row]) -> None:
    """The exponents, where there is more than one row."""
    if len(rows) < 2:
        return
    ranks = [row.ranks for row in rows]
    wall, cpu = (exponent(ranks, [getattr(row.cost, name) for row in rows]) for name in ("wall_s", "cpu_s"))
    print(f"growth exponent: wall time {wall:.2f}, CPU time {cpu:.2f}")


def print_ratios(program: Path, args: Sequence[str], sizes: Sequence[int]) -> None:
    """Both ways, one after the other."""
    print(f"{'ranks':>6} {'torchrun + gloo':>16} {'capture':>9} {'ratio':>6}")
    for ranks in sizes:
        ours, real = capture(program, args, ranks).cost.wall_s, gloo(program, args, ranks).wall_s
        print(f"{ranks:6} {real:14.1f} s {ours:7.1f} s {real / ours:6.1f}", flush=True)


def show(row: Row) -> None:
    """A row of the table, with how busy the machine was when it ended."""
    cost, private = row.cost, "-" if row.private_mb is None else f"{row.private_mb:.1f}"
    print(
        f"{row.ranks:6} {cost.wall_s:7.1f} s {cost.cpu_s / row.ranks * 1e3:8.0f} ms {cost.cpu_s / cost.wall_s:6.2f} "
        f"{private:>8} MB {cost.host_bytes / GIB:7.2f} GiB {row.switches:8} {row.switches / cost.wall_s:6.0f} "
        f"{row.switches / cost.cpu_s:6.0f} {row.nodes:9} {os.getloadavg()[0]:6.1f}",
        flush=True,
    )


def _available() -> int:
    found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    assert found is not None, "Linux tells what memory is available"
    return int(found[1]) * 1024


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split(",")]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="capture | mesh", dest="part")
    of = commands.add_parser("capture", help="a small job, captured with more and more ranks")
    of.add_argument("--ranks", default="64,256,512,1024", type=_sizes, help="world sizes, separated by commas")
    of.add_argument("--gloo", default="", type=lambda text: _sizes(text) if text else [], help="sizes to run for real")
    of.add_argument("--program", default=PROGRAM, type=Path)
    of.add_argument("--args", default="2", type=shlex.split, help="the program's arguments")
    meshed = commands.add_parser("mesh", help="pipeline, tensor and data parallel, with more and more replicas")
    meshed.add_argument("--meshes", nargs="+", default=["2,4,8", "2,4,32", "2,4,128"], help="stages,shards,replicas")
    meshed.add_argument("--micro-batches", default="4", help="of each step; turns grow with them")
    return parser.parse_args()


def _jobs(options: argparse.Namespace) -> list[tuple[Path, list[str], int]]:
    """What to capture: programs, their arguments, and numbers of ranks."""
    if options.part == "mesh":
        return [(MESHED, [mesh, "2", options.micro_batches], prod(_sizes(mesh))) for mesh in options.meshes]
    return [(options.program.resolve(), options.args, ranks) for ranks in options.ranks]


def main() -> None:
    """Print the tables."""
    options = _arguments()
    print(f"{'ranks':>6} {'wall':>9} {'CPU a rank':>11} {'cores':>6} {'private':>11} {'host':>11} "
          f"{'turns':>8} {'a s':>6} {'a CPU s':>7} {'nodes':>8} {'load':>6}")  # fmt: skip
    rows = []
    for job in _jobs(options):
        rows.append(capture(*job))
        show(rows[-1])
    print_captures(rows)
    if options.part == "capture" and options.gloo:
        print_ratios(options.program.resolve(), options.args, options.gloo)


if __name__ == "__main__":
    main()
