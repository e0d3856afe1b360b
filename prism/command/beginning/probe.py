"""A short capture of a program that nothing is known of yet, for what its first scenario should say."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from prism.command.beginning.launch_line import LaunchLine
from prism.command.hints import WANTS_CUDA, told
from prism.command.last_words import last_words
from prism.coordinator import Coordinator
from prism.core.diagnosis import Diagnosis
from prism.core.graph import Graph
from prism.crew import Crew
from prism.errors import ProgramError
from prism.live.observer import Observer
from prism.result import Result
from prism.scenario import Capture, Devices, Output, Program, Scenario, World

WARMUP = 2
"""Iterations that a first scenario leaves out."""
ITERATIONS = WARMUP + 2


class Found(NamedTuple):
    """What the probe saw; the diagnosis of a program that failed."""

    presented: bool  # whether the program had to be told that it has a GPU
    iterations: int  # that the slowest rank ended
    ended: bool  # whether the program ended by itself, so that it has no more of them
    peak_bytes: int | None  # of the rank that held most
    peak_rank: int
    groups: list[tuple[int, int]]  # how many groups of how many ranks, largest first
    diagnosis: Diagnosis | None
    wall_s: float
    printed: list[str]  # the last lines of a rank that failed without an exception

    @property
    def unmarked(self) -> str:
        """What to say where no iteration was seen; "" else."""
        if self.iterations or self.diagnosis is not None:
            return ""
        return "no step of a torch optimizer was seen: name the function that ends an iteration, iteration.marker"

    @property
    def warmup(self) -> int:
        """The iterations to leave out: fewer, where two would not remain."""
        known = self.ended and self.iterations > 0
        return max(0, min(WARMUP, self.iterations - 2)) if known else WARMUP

    @property
    def few(self) -> str:
        """What to say where the program ends after so few iterations that little can be predicted from; "" else."""
        if not self.ended or not 0 < self.iterations < WARMUP + 2 or self.diagnosis is not None:
            return ""
        left = self.iterations - self.warmup
        many = f"{self.iterations} iteration{'s' * (self.iterations > 1)}"
        kept = f"{left} remain{'s' * (left == 1)} after a warm-up of {self.warmup}"
        return f"the program ends after {many}, the first of which are slow: {kept}; let it run {WARMUP + 4} or more"


async def probe(line: LaunchLine, observer: Observer) -> Found:
    """Run the program as all its ranks, for a few iterations; once more with a GPU pretended if it asks for one."""
    async with Crew() as crew:
        found = await _run(line, observer, crew, presented=False)
        if found.diagnosis is not None and WANTS_CUDA.search(told(found.diagnosis)):
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
        printed = list(last_words(run.result.diagnosis, run.folder, "capture")) if run.result.diagnosis else []
    return _found(run.result, graph, presented, printed)


def _found(result: Result, graph: Graph | None, presented: bool, printed: list[str]) -> Found:
    most = max(result.ranks, key=lambda rank: rank.peak_bytes or 0, default=None)
    sizes = Counter(len(group.ranks) for group in graph.groups) if graph is not None else Counter[int]()
    return Found(
        presented=presented,
        iterations=min((rank.iterations for rank in result.ranks), default=0),
        ended=not any(rank.cut for rank in result.ranks),
        peak_bytes=most.peak_bytes if most else None,
        peak_rank=most.rank if most else 0,
        groups=sorted(((count, size) for size, count in sizes.items()), key=lambda row: -row[1]),
        diagnosis=result.diagnosis,
        wall_s=result.stages["capture"].wall_s,
        printed=printed,
    )
