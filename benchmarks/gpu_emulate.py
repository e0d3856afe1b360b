"""Sandbox ranks on a GPU, under torch's own NCCL group, against what was captured, replayed and really measured.

    python -m benchmarks.gpu_emulate [--jobs ddp,tp] [--worlds 2,8] [--iterations 8] [--ranks 64,1024] [--json FILE]
                                     [--keep FOLDER] [SECTION...]

Sections, all if none is named. `same`: losses, peaks of memory and payloads read ahead of rank 0, emulated exactly,
against its capture; of a world of more than 8 ranks one is captured, and stands for all. `iteration`: job_ddp as rank 0
of 2, paced by the table of two GPUs' links, against real runs on those; then with payloads, read ahead and one at a
time. `large`: the same as rank 0 of more ranks, which bring zeros. `init`: what making a communicator of 8,192 ranks
takes. `--keep`: where the output folders of the runs stay. benchmarks.two_gpus compares times, of kernels too, with
those of real runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchmarks.gpu import REAL_MS, TABLE
from benchmarks.gpu_runs import JOBS
from prism.coordinator import Coordinator
from prism.core.graph import Graph
from prism.core.what_if.expansion import expand
from prism.result import EmulationResult
from prism.scenario import STAGES, Calibrate, Devices, Emulate, Fold, Network, Output, Program, Scenario, World
from prism.stages.kinds import gpus

PROGRAMS = Path(__file__).parent / "programs"
WARMUP = 2
PAYLOADS_AHEAD = 4
LARGEST_INIT = 8192
LARGEST_WHOLE = 8
"""Ranks that are captured one and all: so many share a GPU."""
RUNS: tuple[tuple[Literal["zeros", "exact"], int], ...] = (("zeros", 0), ("exact", PAYLOADS_AHEAD), ("exact", 1))
"""What is contributed, and how many payloads may be read ahead."""
KIND: Literal["cuda", "cpu"] = "cuda" if gpus() else "cpu"
"""Without a GPU all runs on the CPU, to try the sections out."""


def job(name: str, world: int, iterations: int, **blocks: Any) -> Scenario:
    """A job on the GPU."""
    given = {"network": Network(model="measured", table=str(TABLE)), **blocks}
    return Scenario(
        prism=1, name=name, program=Program(script=str(JOBS / f"job_{name}.py"), args=(str(iterations),)),
        world=World(size=world), devices=Devices(kind=KIND), calibrate=Calibrate(warmup=WARMUP),
        output=Output(formats=()), stages=STAGES, **given,
    )  # fmt: skip


def within(wrapper: str, program: Program) -> Program:
    """A program inside another one that makes it what is needed here."""
    return Program(script=str(PROGRAMS / wrapper), args=(program.script or "", *program.args))


@contextlib.contextmanager
def room(options: argparse.Namespace, name: str) -> Iterator[Path]:
    """A folder for runs."""
    if options.keep is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        (options.keep / name).mkdir(parents=True)
        yield options.keep / name


def middle(emulation: EmulationResult) -> float:
    """The median iteration of the first sandbox rank, in ms."""
    return statistics.median(emulation.ranks[0].iteration_ns) / 1e6


def show(row: dict[str, Any]) -> None:
    """Print a row."""
    print(*(f"{key} {value}" for key, value in row.items()), flush=True)


def report(out: Path, log: str) -> dict[str, Any]:
    """What a job told in a log."""
    lines = [line for line in (out / "ranks" / log).read_text().splitlines() if line.startswith("REF ")]
    return json.loads(lines[-1].removeprefix("REF "))  # type: ignore[no-any-return]


def same(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rank 0 of each job, exactly, against its capture."""
    rows = []
    for world, name in itertools.product(options.worlds, options.jobs):
        fold = Fold(mesh={"rank": world}, over=("rank",)) if world > LARGEST_WHOLE else None
        plain = job(name, world, 4, fold=fold, emulate=Emulate(sandbox=(0,), contribution="exact"))
        given = msgspec.structs.replace(plain, program=within("deterministically.py", plain.program))
        with room(options, f"{name}-{world}") as folder:
            rows.append(asyncio.run(_same(given, folder / "out")))
        show(rows[-1])
    return rows


async def _same(given: Scenario, out: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"job": given.name, "world": given.world.size}
    try:
        async with Coordinator(given, out) as run:  # times do not matter, so nobody is timed
            emulation = (await run.emulate(await run.capture())).emulation
    except Exception as error:  # of one job; the others are told all the same
        return row | {"failed": f"{type(error).__name__}: {error}"[:300]}
    assert emulation is not None
    captured, emulated = report(out, "0.log"), report(out, "0.emulate.log")
    peaks = [one.get("max_allocated", 0) for one in (captured, emulated)]
    return row | {
        "bits": captured["loss"] == emulated["loss"], "peaks": peaks, "told": emulation.ranks[0].peak_bytes,
        "steps": emulation.ranks[0].steps, "sent": emulation.ranks[0].sent_bytes, "ms": round(middle(emulation), 2),
        "prefetch": msgspec.structs.astuple(emulation.prefetch), "communicators": emulation.ranks[0].communicator_bytes,
    }  # fmt: skip


def iteration(options: argparse.Namespace) -> list[dict[str, Any]]:
    """job_ddp as rank 0 of 2, against real iterations."""
    with room(options, "iteration") as folder:
        return asyncio.run(_iteration(options, folder / "out"))


async def _iteration(options: argparse.Namespace, out: Path) -> list[dict[str, Any]]:
    rows = []
    given = job("ddp", 2, options.iterations, emulate=Emulate(sandbox=(0,), contribution="exact"))
    async with Coordinator(given, out) as run:
        graph = await run.calibrate(await run.capture())
        replayed = (run.replay(graph).iteration_ns_median or 0) / 1e6
        largest = int(graph.ops["nbytes"].max())
        for how, ahead in RUNS:
            emulate = Emulate(sandbox=(0,), contribution=how, pool=max(ahead, 1) * largest)
            run.scenario = msgspec.structs.replace(given, emulate=emulate)
            emulation = (await run.emulate(graph, sandbox=(0,))).emulation
            assert emulation is not None
            counts = msgspec.structs.astuple(emulation.prefetch)
            each = [round(ns / 1e6, 2) for ns in emulation.ranks[0].iteration_ns]
            row = {"how": how, "ahead": ahead, "ms": middle(emulation), "each": each, "replay_ms": replayed}
            rows.append(row | {"prefetch": counts, "earlier_real_ms": REAL_MS["ddp"]})
            show(rows[-1])
    return rows


def large(options: argparse.Namespace) -> list[dict[str, Any]]:
    """job_ddp in larger worlds than were captured."""
    with room(options, "large") as folder:
        given = job("ddp", 2, 5, network=Network())
        program = within("unverified.py", given.program)
        return asyncio.run(_large(msgspec.structs.replace(given, program=program), options.ranks, folder))


def init(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What a communicator of very many ranks takes."""
    with room(options, "init") as folder:
        program = Program(script=str(PROGRAMS / "emulated_init.py"))
        given = msgspec.structs.replace(job("ddp", 2, 0, network=Network()), program=program)
        return asyncio.run(_large(given, (2, LARGEST_INIT), folder))


async def _large(given: Scenario, worlds: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    async with Coordinator(given, folder / "small") as run:
        small = await run.calibrate(await run.capture())
    return [await _emulated(given, small, world, folder / str(world)) for world in worlds]


async def _emulated(given: Scenario, small: Graph, world: int, out: Path) -> dict[str, Any]:
    graph = expand(small, {"replica": 2}, "replica", world) if world > 2 else small
    emulate = Emulate(sandbox=(0,), contribution="zeros")
    wide = msgspec.structs.replace(given, world=World(size=world), emulate=emulate, stages=("emulate",))
    begun = time.monotonic()
    async with Coordinator(wide, out) as run:
        emulation = (await run.emulate(graph)).emulation
    assert emulation is not None
    lines = (out / "ranks" / "0.emulate.log").read_text().splitlines()
    told: dict[str, float] = next(
        (json.loads(line.removeprefix("INIT ")) for line in lines if line.startswith("INIT ")), {}
    )
    row = {
        "ranks": world, "ms": round(middle(emulation), 3), "error": emulation.error_vs_replay,
        "steps": emulation.ranks[0].steps, "stage_s": round(time.monotonic() - begun, 1), **told,
    }  # fmt: skip
    show(row)
    return row


SECTIONS = {one.__name__: one for one in (same, iteration, large, init)}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=["ddp", "fsdp2", "tp", "moe"])
    parser.add_argument("--worlds", type=lambda text: [int(one) for one in text.split(",")], default=[2, 8])
    parser.add_argument("--ranks", type=lambda text: [int(one) for one in text.split(",")], default=[64, 1024])
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    found = {}
    for section in options.sections or SECTIONS:
        found[section] = SECTIONS[section](options)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
