"""A short capture of a program that nothing is known of yet, for what its first scenario should say."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from prism.beginning.launch_line import LaunchLine
from prism.coordinator import Coordinator
from prism.core.diagnosis import Diagnosis
from prism.core.graph import Graph
from prism.crew import Crew
from prism.errors import ProgramError
from prism.live.observer import Observer
from prism.result import Result
from prism.scenario import Capture, Devices, Output, Program, Scenario, World

ITERATIONS = 3
WANTS_CUDA = re.compile(
    r"not compiled with CUDA|NVIDIA driver|No CUDA GPUs|CUDA (is )?not available|invalid device ordinal"
    r"|torch\._C' has no attribute '_(cuda|Cuda)"
)
"""How programs fail that must have a GPU, on a machine without one."""


class Found(NamedTuple):
    """What the probe saw; the diagnosis of a program that failed."""

    presented: bool  # whether the program had to be told that it has a GPU
    iterations: int  # that the slowest rank ended
    peak_bytes: int | None  # of the rank that held most
    peak_rank: int
    groups: list[tuple[int, int]]  # how many groups of how many ranks, largest first
    diagnosis: Diagnosis | None
    wall_s: float


async def probe(line: LaunchLine, observer: Observer) -> Found:
    """Run the program as all its ranks, for a few iterations; once more with a GPU pretended if it asks for one."""
    async with Crew() as crew:
        found = await _run(line, observer, crew, presented=False)
        if found.diagnosis is not None and _wants_cuda(found.diagnosis):
            observer.say("the program wants a GPU: once more, presenting the CPU as one")
            found = await _run(line, observer, crew, presented=True)
    return found


async def _run(line: LaunchLine, observer: Observer, crew: Crew, presented: bool) -> Found:
    scenario = Scenario(
        name=line.name,
        program=Program(script=line.script, module=line.module, args=line.args),
        world=World(size=line.size, ranks_per_node=line.ranks_per_node),
        devices=Devices(present_as="cuda" if presented else None),
        capture=Capture(iterations=ITERATIONS, payloads="none"),
        stages=("capture",),
        output=Output(formats=()),
    )
    graph = None
    with tempfile.TemporaryDirectory(prefix="prism-probe-") as folder:
        async with Coordinator(scenario, Path(folder) / "run", observer=observer, crew=crew) as run:
            try:
                graph = await run.capture()
            except ProgramError:
                if run.result.diagnosis is None:
                    raise
    return _found(run.result, graph, presented)


def _found(result: Result, graph: Graph | None, presented: bool) -> Found:
    most = max(result.ranks, key=lambda rank: rank.peak_bytes or 0, default=None)
    sizes = Counter(len(group.ranks) for group in graph.groups) if graph is not None else Counter[int]()
    return Found(
        presented=presented,
        iterations=min((rank.iterations for rank in result.ranks), default=0),
        peak_bytes=most.peak_bytes if most else None,
        peak_rank=most.rank if most else 0,
        groups=sorted(((count, size) for size, count in sizes.items()), key=lambda row: -row[1]),
        diagnosis=result.diagnosis,
        wall_s=result.stages["capture"].wall_s,
    )


def _wants_cuda(diagnosis: Diagnosis) -> bool:
    told = [diagnosis.summary, *(state.traceback or "" for state in diagnosis.ranks)]
    return any(WANTS_CUDA.search(text) for text in told)
