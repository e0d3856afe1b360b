"""Hybrid emulation across hosts against one host: the same output of the sandbox ranks, and the iterations they take.

    python -m benchmarks.emulate_hosts [--workers 2,3,5] [--runs 3] [SCENARIO.yaml]

The scenario is captured and calibrated once. Then it is emulated on one worker and on several, in turns: each worker is
a host of its own, the first has the sandbox ranks, and their assistants are dealt out to the others. Without a scenario
it is a pipeline times data parallel of 8 ranks whose compute is a timed sleep, ranks 1 and 2 of it in the sandbox.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.accuracy import JOBS, SECTIONS
from benchmarks.emulate import middle
from prism.coordinator import Coordinator
from prism.scenario import Calibrate, Emulate, Launcher, Output, Scenario
from tests.running import scenario

STAGES = ("capture", "calibrate", "replay", "emulate")


def sleeping() -> Scenario:
    """A job whose iterations last the same on any machine."""
    job, section = JOBS["two_dimensional"], SECTIONS["sleeping"]
    args = tuple(job.captured.replace("N", str(section.iterations)).split())
    return scenario(
        job.script, args, 8, 2, stages=STAGES, calibrate=Calibrate(warmup=section.warmup),
        emulate=Emulate(sandbox=(1, 2), contribution="exact"), output=Output(formats=()),
    )  # fmt: skip


async def calibrated(given: Scenario, folder: Path) -> None:
    """Capture and calibrate on one worker."""
    async with Coordinator(given, folder) as run:
        run.replay(await run.calibrate(await run.capture()))


async def emulated(given: Scenario, before: Path, workers: int) -> tuple[float, list[str]]:
    """The median iteration of the sandbox ranks in ms, and what each has printed."""
    spread = msgspec.structs.replace(given, launcher=Launcher(workers=workers))
    with tempfile.TemporaryDirectory() as folder:
        out = shutil.copytree(before, Path(folder) / "out")
        async with Coordinator(spread, out, resume=True) as run:
            emulation = (await run.emulate(await run.calibrate(await run.capture()))).emulation
        assert emulation is not None
        printed = [(out / "ranks" / f"{rank}.emulate.log").read_text(encoding="utf-8") for rank in emulation.sandbox]
    return middle(emulation), printed


def compare(given: Scenario, workers: Sequence[int], runs: int) -> None:
    """Print a row for each number of workers; raises AssertionError where output differs from one worker's."""
    found = defaultdict[int, list[float]](list)
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "calibrated"
        asyncio.run(calibrated(given, before))
        _, alone = asyncio.run(emulated(given, before, 1))
        for _ in range(runs):
            for count in (1, *workers):
                median, printed = asyncio.run(emulated(given, before, count))
                assert printed == alone, f"{count} workers"
                found[count].append(median)
    one = statistics.median(found[1])
    print(f"{'workers':>7} {'iteration':>11} {'spread':>7} {'against 1':>9}   load {os.getloadavg()[0]:.1f}")
    for count, medians in found.items():
        middling = statistics.median(medians)
        spread = (max(medians) - min(medians)) / middling
        print(f"{count:7} {middling:8.2f} ms {spread:7.2%} {middling / one - 1:+9.2%}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulate_hosts", description=__doc__.partition("\n")[0])
    parser.add_argument("scenario", type=Path, nargs="?")
    parser.add_argument("--workers", type=lambda text: [int(one) for one in text.split(",")], default=[2, 3, 5])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    given = sleeping() if options.scenario is None else Scenario.load(options.scenario)
    compare(given, options.workers, options.runs)


if __name__ == "__main__":
    main()
