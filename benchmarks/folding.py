"""Folded worlds: what 8,192 ranks take, what folding changes of a smaller world's prediction, how fast sums are.

    python -m benchmarks.folding [--parts scale,alike,sums]

scale: scenarios/folded_8192.yaml through all its stages, each with its time, and the memory of all processes together.
alike: 64 ranks of the same program in virtual time, all of them and folded; with equal data of all replicas both give
the same graph and iterations, with data of their own the difference is told.
sums: how long the sum of 64 MiB of bfloat16 takes, where members bring the same payload and where each brings its own.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import fields
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.resident import Resident
from prism import Coordinator, Scenario
from prism.core import instructions
from prism.core.graph import Graph, OpKind
from prism.gpu.group.fold import fold
from prism.gpu.group.tensors import save
from prism.net.payloads import Arena, Library
from prism.net.scratch import SHARED_MEMORY
from prism.scenario import Calibrate, Fold
from tests.running import Run, predict, scenario

ROOT = Path(__file__).parents[1]
SCALE = ROOT / "scenarios" / "folded_8192.yaml"
PROGRAM = ROOT / "scenarios" / "workloads" / "qwen_moe.py"
VIRTUAL_TIME = Path(__file__).parent / "programs" / "virtual_time.py"
MESH = {"pp": 2, "dp": 2, "ep": 4, "tp": 4}
GIB = 1 << 30
SUMS = ((2, "the same"), (8, "the same"), (1024, "the same"), (2, "their own"), (8, "their own"))
ELEMENTS = 32 << 20


async def scale(out: Path) -> None:
    """Print the time of each stage of the large job."""
    given, begun = Scenario.load(SCALE), time.monotonic()
    with Resident() as resident:
        async with Coordinator(given, out) as run:
            graph = await _timed("capture", run.capture())
            graph = await _timed("calibrate", run.calibrate(graph))
            start = time.monotonic()
            result = run.replay(graph)
            print(f"{'replay':>10} {time.monotonic() - start:7.1f} s", flush=True)
        wall = time.monotonic() - begun
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ran = len(result.fold.ran) if result.fold is not None else result.world_size
    print(f"{result.world_size:,} ranks, {ran} of which ran, {result.nodes:,} nodes, {len(result.what_if)} what-ifs")
    print(f"all, with the report: {wall:.0f} s, {sum(one.ru_utime + one.ru_stime for one in used):.0f} s of CPU time")
    print(f"at most {resident.most / GIB:.1f} GiB of memory in all processes together")


async def _timed(stage: str, work: Awaitable[Graph]) -> Graph:
    start = time.monotonic()
    graph = await work
    print(f"{stage:>10} {time.monotonic() - start:7.1f} s", flush=True)
    return graph


def alike(folder: Path) -> None:
    """Print whether a folded world gives what all ranks give."""
    print(f"{'data':>5} {'ran':>4} {'wall':>8} {'graph':>9} {'iteration':>12} {'difference':>11}")
    for data in ("same", "own"):
        whole = None
        for over in ((), ("dp",), ("dp", "ep")):
            start = time.monotonic()
            run = _predicted(data, over, folder / f"{data}-{'-'.join(over)}")
            wall = time.monotonic() - start
            whole = whole or run
            _tell(data, run, whole, wall)


def _predicted(data: str, over: tuple[str, ...], out: Path) -> Run:
    spelt = ",".join(f"{name}={extent}" for name, extent in MESH.items())
    args = (str(PROGRAM), "--mesh", spelt, "--sleep", "--data", data, "--iterations", "4", "--micro-batches", "4")
    fold = Fold(mesh=MESH, over=over) if over else None
    return predict(scenario(VIRTUAL_TIME, args, 64, fold=fold, calibrate=Calibrate(warmup=1)), out)


def _tell(data: str, run: Run, whole: Run, wall: float) -> None:
    assert run.result.iteration_ns
    assert whole.result.iteration_ns
    mine, all_ranks = median(run.result.iteration_ns), median(whole.result.iteration_ns)
    ran = len(run.result.fold.ran) if run.result.fold is not None else run.result.world_size
    graph = "the same" if _same(run.graph, whole.graph) else "another"
    print(f"{data:>5} {ran:4} {wall:6.1f} s {graph:>9} {mine / 1e6:9.3f} ms {mine / all_ranks - 1:+11.2%}", flush=True)


def _same(one: Graph | None, other: Graph | None) -> bool:
    """Whether two graphs differ in nothing but durations."""
    for column in fields(Graph):
        mine, theirs = getattr(one, column.name), getattr(other, column.name)
        if column.name == "nodes":
            mine, theirs = (nodes[["kind", "ref", "site"]] for nodes in (mine, theirs))
        if not (np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs):
            return False
    return True


def sums(folder: Path) -> None:
    """Print how long the sums of members take that bring the same payload, or their own, beside a copy of it."""
    store, library = Arena(folder, "sums"), Library(folder)
    own = [save([torch.randn(ELEMENTS).to(torch.bfloat16)], store) for _ in range(8)]
    print(f"{'members':>8} {'payload':>10} {'sum':>10} {'copies':>7} {'additions':>11}")
    for size, payload in SUMS:
        inputs = tuple(own[0 if payload == "the same" else member] for member in range(size))
        due = instructions.Fold(
            rank=0, op=0, kind=OpKind.ALL_REDUCE, dtype="bfloat16", reduce="sum", root=-1, inputs=inputs
        )
        took, copied = [], []
        for _ in range(7 if size < 100 else 3):
            start = time.perf_counter()
            (result,), _ = fold(due, library, lambda nbytes: store)
            took.append(time.perf_counter() - start)
            store.release(result)
            copied.append(_copy_of(result.nbytes))
        done, additions = median(took), (size - 1) * ELEMENTS
        print(f"{size:8,} {payload:>10} {done * 1e3:7.0f} ms {done / median(copied):7.1f}", end=" ")
        print(f"{additions / done / 1e9:7.1f} G/s", flush=True)
    library.close()
    store.close()


def _copy_of(nbytes: int) -> float:
    source, target = torch.ones(nbytes, dtype=torch.uint8), torch.ones(nbytes, dtype=torch.uint8)
    start = time.perf_counter()
    target.copy_(source)
    return time.perf_counter() - start


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", default="scale,alike,sums", help="which, separated by commas")
    parts = parser.parse_args().parts.split(",")
    with tempfile.TemporaryDirectory() as folder:
        if "scale" in parts:
            asyncio.run(scale(Path(folder) / "scale"))
        if "alike" in parts:
            alike(Path(folder))
    if "sums" in parts:
        with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as shared:  # as the payloads of a run
            sums(Path(shared))


if __name__ == "__main__":
    main()
