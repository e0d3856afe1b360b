"""What several workers cost: messages per second through the coordinator, and its share of a CPU, against one worker.

`python -m benchmarks.hosts [--workers 3] [--ranks 24] [--operations 400]`. The program only communicates, so all that
is done is passing messages and small payloads on. The coordinator is this process; CPU seconds are its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from prism.coordinator import Coordinator
from prism.core.events import AnyEvent
from prism.crew import Crew
from prism.net.launchers.local import LocalLauncher
from prism.scenario import Devices, Launcher, Program, Scenario, World

PROGRAM = """
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
numbers = torch.ones(int(sys.argv[2]))
for _ in range(int(sys.argv[1])):
    dist.all_reduce(numbers)
    numbers /= dist.get_world_size()
"""
NODE = 4


class CountingCrew(Crew):
    """A crew that counts what it hears."""

    def __init__(self, workers: int) -> None:
        super().__init__(LocalLauncher(workers))
        self.heard = 0

    async def events(self) -> tuple[AnyEvent, ...]:
        found = await super().events()
        self.heard += len(found)
        return found


@dataclass(frozen=True)
class Measured:
    """One capture."""

    events: int
    wall_s: float
    cpu_s: float  # of the coordinator

    @property
    def per_second(self) -> float:
        """Events a second of wall time."""
        return self.events / self.wall_s

    @property
    def share(self) -> float:
        """Of one CPU, what the coordinator takes."""
        return self.cpu_s / self.wall_s

    @property
    def each_us(self) -> float:
        """The coordinator's CPU time for one event."""
        return 1e6 * self.cpu_s / self.events


async def measure(workers: int, ranks: int, operations: int, elements: int, folder: Path) -> Measured:
    """Capture the program on so many workers; the workers have imported torch before that."""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    scenario = Scenario(
        name="hosts",
        program=Program(script=str(script), args=(str(operations), str(elements))),
        world=World(size=ranks, ranks_per_node=NODE),
        devices=Devices(kind="cpu", slots=2),
        launcher=Launcher(workers=workers),
    )
    async with CountingCrew(workers) as crew:
        for name in ("warm", "measured"):
            crew.heard, start, cpu = 0, time.monotonic(), _cpu()
            async with Coordinator(scenario, folder / f"{name}-{workers}-{elements}", crew=crew) as run:
                await run.capture()
        return Measured(crew.heard, time.monotonic() - start, _cpu() - cpu)


def _cpu() -> float:
    times = os.times()
    return times.user + times.system


def main() -> None:
    """Print one line for each number of workers and size of payload."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hosts", description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=24)
    parser.add_argument("--operations", type=int, default=400)
    options = parser.parse_args()
    print(f"{'payload':>9} {'workers':>8} {'events':>8} {'events/s':>9} {'CPU share':>10} {'us an event':>12}")
    for elements in (4, 65536):
        operations = options.operations if elements == 4 else options.operations // 10
        for workers in (1, options.workers):
            with tempfile.TemporaryDirectory() as folder:
                found = asyncio.run(measure(workers, options.ranks, operations, elements, Path(folder)))
            line = f"{found.events:>8} {found.per_second:>9.0f} {found.share:>10.2f} {found.each_us:>12.0f}"
            print(f"{4 * elements:>7} B {workers:>8} {line}")


if __name__ == "__main__":
    main()
