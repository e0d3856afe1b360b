"""The coordinator: takes a scenario through its stages.

    async with Coordinator(Scenario.load("moe.yaml")) as run:
        graph = await run.capture()
        graph = await run.calibrate(graph)
        result = run.replay(graph)

It owns no rule: what ranks may do is decided by the worlds in prism.core, what times mean by prism.core's replay. Here
stages are set up, driven and written down. Started as a program (`python -m prism.coordinator SCENARIO.yaml`) it is the
command line of prism.command.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Self

import numpy as np

from prism.core.answers import Answers
from prism.core.building import build_graph
from prism.core.calibration import calibrate, compute_nodes
from prism.core.exchange import Capture
from prism.core.graph import Graph, Timeline
from prism.core.world import World
from prism.crew import Crew
from prism.driver import drive
from prism.errors import ProgramError, RunError, ScenarioError
from prism.folder import Captured, Done, Folder, Progress, digests
from prism.prediction import predict
from prism.progress import Observer, Silent
from prism.report.flight import write_flight
from prism.report.views import write_views
from prism.result import RankResult, Result, StageResult
from prism.scenario import Scenario, WhatIf
from prism.staging import crowded, fault_changes, refuse_what_nothing_enforces, stage_setup


class Interrupted(Exception):
    """The run was ended by its user; what was finished is kept."""


class Coordinator:
    """One run of a scenario; `out` defaults to runs/<name> in the working directory.

    An async context manager: on leaving it all processes are gone, and result.json and its views are written. Many
    runs may share a crew that the caller opened before: what it costs to start is then paid once.
    """

    def __init__(
        self,
        scenario: Scenario,
        out: Path | None = None,
        *,
        resume: bool = False,
        observer: Observer | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.scenario = scenario
        self.folder = Folder(out or Path("runs") / scenario.name)
        self.result = Result(scenario=scenario.name, status="partial", world_size=scenario.world.size)
        self._resume = resume
        self._observer = observer or Silent()
        self._crew = crew
        self._keep_crew = crew is not None
        self._digests: dict[str, str] = {}
        self._progress = Progress()
        self._seen: tuple[Graph, Timeline] | None = None  # what the views are made of
        self._interrupted = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.folder.begin(self._resume)
        self._digests = digests(self.scenario, version("torch"))
        self._progress = self.folder.progress(self._digests)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._crew is not None and not self._keep_crew:
            await self._crew.__aexit__()
        self._finish()

    def interrupt(self) -> None:
        """End the run now; the stage that is under way raises Interrupted."""
        self._interrupted.set()

    # -- stages ------------------------------------------------------------------------------------------------------

    async def capture(self) -> Graph:
        """Run all ranks on the slots there are; returns the bare graph. Raises ProgramError with a diagnosis."""
        if "capture" in self._progress.stages:
            return self._reuse("capture")
        with self._stage("capture"):
            self.folder.clear_capture()
            size = self.scenario.world.size
            exchange = Capture(range(size))
            world = World(range(size), self.scenario.devices.slots, exchange, self.scenario.hang_after)
            await self._drive("capture", world)
            self.result.ranks = _rank_results(world)
            self.result.switches = sum(rank.switches for rank in world.ranks.values())
            self.result.warnings = exchange.warnings.told()
            if world.diagnosis is not None:
                write_flight(self.folder.flight, exchange)
            self._check(world)
            if self.scenario.capture.iterations is None:  # ranks that were cut leave operations open by nature
                exchange.conclude()
            self.result.warnings = exchange.warnings.told()
            graph = build_graph(exchange.records, exchange.matcher)
            self.result.nodes, self.result.ops = len(graph.nodes), len(graph.ops)
            self.folder.save_records(exchange.records)
            self.folder.save_graph(graph, self.scenario)
            self._progress.captured = Captured(
                switches=self.result.switches, ranks=self.result.ranks, warnings=self.result.warnings
            )
        return graph

    async def calibrate(self, graph: Graph) -> Graph:
        """Time the ranks slice by slice, answered from the record; returns the graph with durations."""
        if "calibrate" in self._progress.stages:
            return self._reuse("calibrate")
        with self._stage("calibrate"):
            measured = np.zeros(len(graph.nodes), np.int64)
            slices = self.scenario.slices()
            self.result.warnings += crowded(slices)
            for number, ranks in enumerate(slices):
                exchange = Answers(self.folder.load_record(rank) for rank in ranks)
                world = World(ranks, len(ranks), exchange, self.scenario.hang_after, preempt=False)
                self._observer.step(number, len(slices))
                await self._drive("calibrate", world)
                self._check(world)
                for rank in ranks:
                    if not exchange.complete(rank):
                        raise RunError(f"rank {rank} ended before it had repeated what was captured of it")
                    measured[compute_nodes(graph, rank)] = exchange.durations(rank)
            calibration = calibrate(graph, measured, self.scenario.calibrate.warmup, fault_changes(self.scenario))
            graph = graph.with_durations(calibration.durations)
            self.folder.save_graph(graph, self.scenario)
        return graph

    def replay(self, graph: Graph, what_if: Sequence[WhatIf] | None = None) -> Result:
        """Evaluate the calibrated graph and its variants in virtual time; returns the result."""
        with self._stage("replay"):
            variants = self.scenario.what_if if what_if is None else tuple(what_if)
            prediction = predict(graph, self.scenario, variants)
            prediction.into(self.result)
            self._seen = (graph, prediction.timeline)
        return self.result

    def _finish(self) -> None:
        """Say how the run as a whole went, and write it down: result.json and its views."""
        states = {stage.status for stage in self.result.stages.values()}
        if not states:  # nothing was begun, so there is nothing to tell
            self.folder.abandon()
            return
        self.result.status = "failed" if "failed" in states else "partial" if "interrupted" in states else "ok"
        self.result.save(self.folder.result)
        if self._seen is not None or self.result.diagnosis is not None:
            write_views(self.folder, self.result, self._seen, self.scenario)

    def load_graph(self, stage: str) -> Graph:
        """The graph that an earlier run of the stage left in the folder; raises ScenarioError if there is none."""
        if stage not in self._progress.stages:
            raise ScenarioError(
                f"--stages: {self.folder.path} holds no finished {stage} of this scenario; add {stage} to the stages"
            )
        return self._reuse(stage)

    # -- parts of a stage --------------------------------------------------------------------------------------------

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        self._observer.begin(name)
        status = "failed"
        try:
            yield
            if self._interrupted.is_set():
                raise Interrupted
            status = "ok"
        except (Interrupted, asyncio.CancelledError):
            status = "interrupted"
            raise
        finally:
            wall = round(time.monotonic() - start, 3)
            self.result.stages[name] = StageResult(status=status, wall_s=wall)  # type: ignore[arg-type]
            if status == "ok":
                self._progress.stages[name] = Done(digest=self._digests[name], wall_s=wall)
                self.folder.save_progress(self._progress)
            self._observer.end(name, status, wall)

    def _reuse(self, name: str) -> Graph:
        graph = self.folder.load_graph()
        self.result.stages[name] = StageResult(status="reused", wall_s=self._progress.stages[name].wall_s)
        self.result.nodes, self.result.ops = len(graph.nodes), len(graph.ops)
        if self._progress.captured is not None:
            self.result.ranks = self._progress.captured.ranks
            self.result.switches = self._progress.captured.switches
            self.result.warnings = self._progress.captured.warnings
        return graph

    async def _drive(self, stage: str, world: World) -> None:
        refuse_what_nothing_enforces(self.scenario)
        if self._crew is None:
            self._crew = Crew()
            await self._unless_interrupted(self._crew.__aenter__())
        await self._unless_interrupted(self._crew.prepare(stage_setup(self.scenario, self.folder, stage)))
        await drive(world, self._crew, self._interrupted, self._observer.watch)

    async def _unless_interrupted(self, work: Awaitable[object]) -> None:
        """Wait for work that an interruption may cut short."""
        working, stop = asyncio.ensure_future(work), asyncio.ensure_future(self._interrupted.wait())
        try:
            await asyncio.wait((working, stop), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise Interrupted
            working.result()
        finally:
            working.cancel()
            stop.cancel()
            await asyncio.gather(working, return_exceptions=True)  # it may have something to clean up

    def _check(self, world: World) -> None:
        """Raise what went wrong in a world that is over."""
        if world.interrupted:
            raise Interrupted
        if world.broke:
            raise RunError(f"{world.broke}; its log in {self.folder.logs} has the traceback")
        if world.diagnosis is not None:
            self.result.diagnosis = world.diagnosis
            raise ProgramError(f"{world.diagnosis.kind}: {world.diagnosis.summary}")


def _rank_results(world: World) -> list[RankResult]:
    return [
        RankResult(
            rank=r.rank,
            exit=r.code,
            cut=r.cut,
            peak_bytes=r.peak_bytes,
            peak_breakdown=r.peak_breakdown,
            iterations=r.iterations,
        )
        for r in world.ranks.values()
    ]


if __name__ == "__main__":
    from prism.command import main

    sys.exit(main())
