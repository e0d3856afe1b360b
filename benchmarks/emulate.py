"""Hybrid emulation: how far it is from real runs and from replay, and what virtual ranks cost.

    python -m benchmarks.emulate accuracy [--worlds 8,16] [--sandboxes 1,2] [--runs 3] [JOB...]
    python -m benchmarks.emulate scale [--ranks 64,256,1024] [--mesh] [--workers 1]
    python -m benchmarks.emulate prefetch
    python -m benchmarks.emulate paced [--world 4] [--runs 3] [JOB...]

accuracy: jobs whose compute is a timed sleep, for real (torch.distributed over gloo), replayed, and emulated; the
median iteration of each, with the costs that single operations have on this machine. scale: a pipeline of 4 stages
times data parallel is captured with 2 replicas, its graph expanded, and 2 ranks emulated in the larger world, which is
made of as many processes whatever its size; `init` is how long rank 0 takes until it has made its groups (with --mesh
those of a device mesh, one for each replica, too), `assistant` the part of a core that an assistant uses. With several
workers, each a host of its own, assistants are on others than the sandbox ranks, and contribute zeros. prefetch: the
payloads of a job read ahead into pools of different sizes. paced: what is predicted from a calibration that is answered
at once, and from one beside the engine's communication.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.accuracy import JOBS, PROGRAMS, SECTIONS, real_median
from benchmarks.loopback import measure, table
from benchmarks.shares import Shares
from prism.coordinator import Coordinator
from prism.core.graph import Graph
from prism.core.what_if.expansion import expand
from prism.result import EmulationResult
from prism.scenario import Calibrate, Emulate, Launcher, Network, Output, Scenario, World
from tests.running import scenario

STAGES = ("capture", "calibrate", "replay", "emulate")
SANDBOXES = {1: (1,), 2: (1, 2)}
PIPELINE = 4


def middle(emulation: EmulationResult) -> float:
    """The median iteration of the sandbox ranks, in ms."""
    return statistics.median(ns for rank in emulation.ranks for ns in rank.iteration_ns) / 1e6


def accuracy(options: argparse.Namespace) -> None:
    """Print real, replayed and emulated iterations of the sleeping jobs."""
    heads = f"{'job':<18} {'ranks':>5} {'real':>11} {'spread':>7}"
    print(f"{heads} {'sandbox':>7} {'replay':>8} {'emulated':>11} {'error':>8}")
    section, errors = SECTIONS["sleeping"], []
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder) / "costs.csv"
        members = sorted({2, *options.worlds})
        costs.write_text(table([cost for n in members for cost in measure(n)]), encoding="utf-8")
        for name in options.jobs:
            for world in options.worlds:
                runs = [real_median(JOBS[name], world, section) for _ in range(options.runs)]
                real = statistics.median(runs)
                spread = (max(runs) - min(runs)) / real
                for count in options.sandboxes:
                    replay, emulated = asyncio.run(_emulated(name, world, options.slots, SANDBOXES[count], costs))
                    errors.append(abs(emulated / real - 1))
                    print(
                        f"{name:<18} {world:5} {real:8.2f} ms {spread:7.2%} {count:7} {replay / real - 1:+8.2%} "
                        f"{emulated:8.2f} ms {emulated / real - 1:+8.2%}",
                        flush=True,
                    )
    print(f"emulated: mean error {statistics.mean(errors):.2%}, worst {max(errors):.2%}")


async def _emulated(name: str, world: int, slots: int, sandbox: tuple[int, ...], costs: Path) -> tuple[float, float]:
    """The median iteration of a job as replayed, and as emulated, in ms."""
    section = SECTIONS["sleeping"]
    given = scenario(
        JOBS[name].script,
        tuple(JOBS[name].captured.replace("N", str(section.iterations)).split()),
        world,
        slots,
        stages=STAGES,
        calibrate=Calibrate(warmup=section.warmup),
        network=Network(model="measured", table=str(costs)),
        emulate=Emulate(sandbox=sandbox),
        output=Output(formats=()),
    )
    with tempfile.TemporaryDirectory() as folder:
        async with Coordinator(given, Path(folder) / "out") as run:
            graph = await run.calibrate(await run.capture())
            replayed = run.replay(graph).iteration_ns_median
            emulation = (await run.emulate(graph)).emulation
    assert replayed is not None
    assert emulation is not None
    return replayed / 1e6, middle(emulation)


def scale(options: argparse.Namespace) -> None:
    """Print what emulating two ranks of larger and larger worlds takes."""
    heads = f"{'ranks':>6} {'nodes':>10} {'groups':>6} {'ops':>6} {'stage':>8} {'memory':>9}"
    print(f"{heads} {'replay':>10} {'emulated':>11} {'error':>8} {'init':>7} {'CPU':>7} {'assistant':>9}")
    asyncio.run(_scale(options.ranks, ("mesh",) if options.mesh else (), options.workers))


async def _scale(worlds: Sequence[int], more: tuple[str, ...], workers: int) -> None:
    script = PROGRAMS / "meshed.py"
    given = scenario(
        script, (str(PIPELINE), "6", *more), 2 * PIPELINE, network=Network(model="none"), output=Output(formats=())
    )
    with tempfile.TemporaryDirectory() as folder:
        async with Coordinator(given, Path(folder) / "small") as run:
            small = await run.calibrate(await run.capture())
        spread = msgspec.structs.replace(given, launcher=Launcher(workers=workers))
        for world in worlds:
            await _emulate_large(spread, small, world, Path(folder) / str(world))


async def _emulate_large(given: Scenario, small: Graph, world: int, out: Path) -> None:
    """Emulate the first rank of the first two stages in a world of so many ranks, and print a row."""
    graph = expand(small, {"stage": PIPELINE, "replica": 2}, "replica", world // PIPELINE)
    contribution = "replicas" if given.launcher.workers == 1 else "zeros"
    emulate = Emulate(sandbox=(0, world // PIPELINE), contribution=contribution)
    large = msgspec.structs.replace(given, world=World(size=world), emulate=emulate, stages=("emulate",))
    async with Coordinator(large, out) as run:
        start = time.monotonic()
        with Shares([out / "ranks" / f"assistant-{number}.log" for number in (0, 1)]) as assistants:
            emulation = (await run.emulate(graph)).emulation
        wall = time.monotonic() - start
    init, cpu = _init(out / "ranks" / "0.emulate.log")
    assert emulation is not None
    assert emulation.error_vs_replay is not None
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    emulated = middle(emulation)
    print(
        f"{world:6} {len(graph.nodes):10,} {emulation.groups:6} {emulation.ops:6} {wall:6.1f} s {memory:5.2f} GiB "
        f"{emulated / (1 + emulation.error_vs_replay):7.2f} ms {emulated:8.2f} ms {emulation.error_vs_replay:+8.2%} "
        f"{init:5.2f} s {cpu:5.2f} s {assistants.mean():9.1%}",
        flush=True,
    )


def _init(log: Path) -> tuple[float, float]:
    """Seconds from the start of a rank's process until it has made its groups, and the CPU time of that."""
    told = re.search(r"INIT ([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+)", log.read_text(encoding="utf-8"))
    assert told is not None, "the program printed no INIT line"
    begun, cpu_begun, making, cpu_making = (float(seconds) for seconds in told.groups())
    return begun + making, cpu_begun + cpu_making


def prefetch(options: argparse.Namespace) -> None:
    """Print what becomes of payloads that are read ahead into pools of different sizes."""
    print(f"{'pool':>10} {'hits':>6} {'misses':>6} {'stalls':>6} {'emulated':>11}")
    asyncio.run(_prefetch())


async def _prefetch() -> None:
    reference = Path(__file__).parents[1] / "tests" / "jobs" / "job_pp.py"
    with tempfile.TemporaryDirectory() as folder:
        given = scenario(reference, ("12",), 4, stages=STAGES, emulate=Emulate(sandbox=(1,)), output=Output(formats=()))
        async with Coordinator(given, Path(folder) / "out") as run:
            graph = await run.calibrate(await run.capture())
            largest = int(graph.ops["nbytes"].max())
            for payloads in (1, 4, 1000):
                run.scenario = msgspec.structs.replace(
                    given, emulate=msgspec.structs.replace(given.emulate, pool=payloads * largest)
                )
                emulation = (await run.emulate(graph, sandbox=(1,))).emulation
                assert emulation is not None
                counts = emulation.prefetch
                print(
                    f"{payloads:>10} {counts.hits:6} {counts.misses:6} {counts.stalls:6} {middle(emulation):8.2f} ms",
                    flush=True,
                )


def paced(options: argparse.Namespace) -> None:
    """Print real iterations, and those predicted from either kind of calibration."""
    print(f"{'job':<18} {'ranks':>5} {'real':>11} {'spread':>7} {'answers':>7} {'predicted':>11} {'error':>8}")
    section = SECTIONS["sleeping"]
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder) / "costs.csv"
        members = sorted({2, options.world})
        costs.write_text(table([cost for n in members for cost in measure(n)]), encoding="utf-8")
        for name in options.jobs:
            runs = [real_median(JOBS[name], options.world, section) for _ in range(options.runs)]
            real = statistics.median(runs)
            spread = (max(runs) - min(runs)) / real
            for answers in ("fast", "paced"):
                guess = asyncio.run(_predicted(name, options.world, answers, costs))
                told = f"{guess:8.2f} ms {guess / real - 1:+8.2%}"
                print(f"{name:<18} {options.world:5} {real:8.2f} ms {spread:7.2%} {answers:>7} {told}", flush=True)


async def _predicted(name: str, world: int, answers: Literal["fast", "paced"], costs: Path) -> float:
    """The median iteration that replay predicts, in ms."""
    section = SECTIONS["sleeping"]
    given = scenario(
        JOBS[name].script,
        tuple(JOBS[name].captured.replace("N", str(section.iterations)).split()),
        world,
        calibrate=Calibrate(warmup=section.warmup, answers=answers),
        network=Network(model="measured", table=str(costs)),
        output=Output(formats=()),
    )
    with tempfile.TemporaryDirectory() as folder:
        async with Coordinator(given, Path(folder) / "out") as run:
            median = run.replay(await run.calibrate(await run.capture())).iteration_ns_median
    assert median is not None
    return median / 1e6


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    tables = parser.add_subparsers(required=True)
    one = tables.add_parser("accuracy")
    one.add_argument("jobs", nargs="*", default=[n for n, job in JOBS.items() if job.section == "sleeping"])
    one.add_argument("--worlds", type=_numbers, default=[8, 16])
    one.add_argument("--sandboxes", type=_numbers, default=[1, 2], help="how many sandbox ranks: 1, 2")
    one.add_argument("--runs", type=int, default=3)
    one.add_argument("--slots", type=int, default=2, help="of capture and calibration")
    one.set_defaults(show=accuracy)
    two = tables.add_parser("scale")
    two.add_argument("--ranks", type=_numbers, default=[64, 256, 1024])
    two.add_argument("--mesh", action="store_true")
    two.add_argument("--workers", type=int, default=1)
    two.set_defaults(show=scale)
    tables.add_parser("prefetch").set_defaults(show=prefetch)
    four = tables.add_parser("paced")
    four.add_argument("jobs", nargs="*", default=["pipeline", "data_parallel", "experts"])
    four.add_argument("--world", type=int, default=4)
    four.add_argument("--runs", type=int, default=3)
    four.set_defaults(show=paced)
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores")
    options.show(options)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main()
