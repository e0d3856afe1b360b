"""One run of a scenario, whatever its stages: its folder, its crew, its result, and how a stage is gone through."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Literal, Self

from prism.core.events import Clocked
from prism.core.graph import Graph, Timeline
from prism.core.placement import place
from prism.core.stage import verdict
from prism.core.stage.warnings import ATTACH
from prism.core.stage.world import World
from prism.core.traffic import crossing, talks
from prism.crew import Crew
from prism.crew.launching import launcher_of
from prism.errors import PreloadError, ProgramError, RunError, ScenarioError
from prism.exhaustion import Exhausted, room_in
from prism.folder import Folder
from prism.live.observer import Observer, Silent
from prism.net.messages import Setup
from prism.prediction.together import together
from prism.progress import Done, Progress, digests
from prism.report.units import size
from prism.result import Result, StageResult
from prism.scenario import Scenario
from prism.stages.driver import drive
from prism.stages.forecast import Forecast
from prism.stages.kinds import check_device, device_kind, told
from prism.stages.staging import needed, refuse_what_nothing_enforces


def stage_digests(scenario: Scenario) -> dict[str, str]:
    """What each stage depends on, here and now."""
    return digests(scenario, f"{version('torch')} {device_kind(scenario)}")


class Interrupted(Exception):
    """The run was ended by its user; what was finished is kept."""


class Run:
    """One run of a scenario; `out` defaults to runs/<name> in the working directory.

    An async context manager: on leaving it all processes are gone, and result.json and its views are written. Many
    runs may share a crew that the caller opened before: what it costs to start is then paid once.
    """

    def __init__(
        self,
        scenario: Scenario,
        out: str | os.PathLike[str] | None = None,
        *,
        resume: bool = False,
        observer: Observer | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.scenario = scenario
        self.folder = Folder(Path(out or Path("runs") / scenario.name))
        self.result = Result(scenario=scenario.name, status="partial", world_size=scenario.world.size)
        self._resume = resume
        self._observer = observer or Silent()
        self._crew = crew
        self._keep_crew = crew is not None
        self._digests: dict[str, str] = {}
        self._progress = Progress()
        self._seen: tuple[Graph, Timeline] | None = None  # what the views are made of
        self._interrupted = asyncio.Event()
        self._said: set[str] = set()
        self._earlier: Graph | None = None  # of the capture before, if this one is not the first
        self._lies: dict[int, Counter[str]] = {}  # where the results of ranks are: prism.core.record.lying
        self.clocks: dict[int, Clocked] = {}  # how the devices ran while ranks were timed
        self._forecast = Forecast()

    async def __aenter__(self) -> Self:
        self._digests = stage_digests(self.scenario)
        self.folder.begin(self._resume)
        self._progress = self.folder.progress(self._digests, needed(self.scenario))
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        try:
            if self._crew is not None and not self._keep_crew:
                await self._crew.__aexit__()
            self._finish()
        except Exhausted:
            if not isinstance(error, RunError):  # else what failed first is told
                raise
        finally:
            self.folder.release()

    def interrupt(self) -> None:
        """End the run now; the stage that is under way raises Interrupted."""
        self._interrupted.set()

    def load_graph(self, stage: str) -> Graph:
        """The graph that an earlier run of the stage left in the folder; raises ScenarioError if there is none."""
        if stage not in self._progress.stages:
            hint = " (a capture that has kept less than its emulation needs counts as none)"
            raise ScenarioError(
                f"--stages: {self.folder.path} holds no finished {stage} of this scenario; add {stage} to the stages"
                + (hint if "emulate" in self.scenario.stages else "")
            )
        return self._reuse(stage)

    # -- parts of a stage --------------------------------------------------------------------------------------------

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        if not self._digests:
            raise RuntimeError("a run begins with `async with Coordinator(...) as run:`")
        start = time.monotonic()
        self._observer.begin(name)
        status: Literal["ok", "failed", "interrupted"] = "failed"
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
            self.result.stages[name] = StageResult(status=status, wall_s=wall)
            if status == "ok":
                self._progress.stages[name] = Done(digest=self._digests[name], wall_s=wall)
                self.folder.save_progress(self._progress)
            self._observer.end(name, status, wall)

    def _reuse(self, name: str) -> Graph:
        graph = self.folder.load_graph()
        if name == "calibrate" and (timings := self.folder.load_timings()) is not None:
            graph = together(graph, timings, self.scenario)  # the network may be another one by now
            self.folder.save_graph(graph, self.scenario)
        self.result.stages[name] = StageResult(status="reused", wall_s=self._progress.stages[name].wall_s)
        self.result.nodes, self.result.ops = len(graph.nodes), len(graph.ops)
        if self._progress.captured is not None:
            self._progress.captured.into(self.result)
        if name != "capture" and self._progress.calibrated is not None:
            self._progress.calibrated.into(self.result)
        return graph

    @property
    def workers(self) -> int:
        """How many workers there are, or will be."""
        return self._crew.size if self._crew is not None else self.scenario.launcher.workers

    def _places(self, ranks: Sequence[int]) -> dict[int, int] | None:
        """The worker that each rank runs on, by number; None where there is one."""
        if self.workers <= 1:
            return None
        world, earlier = self.scenario.world, self._earlier
        known = talks(earlier, ranks) if earlier is not None and earlier.world_size == world.size else []
        placed = place(ranks, world.ranks_per_node, self.workers, known)
        before, after = crossing(known, place(ranks, world.ranks_per_node, self.workers)), crossing(known, placed)
        if after < before:
            text = f"ranks are placed by what they said to each other in the capture before: {size(after)} cross hosts"
            self._observer.say(f"{text}, of {size(before)} by nodes")
        return placed

    async def _drive(self, world: World, setup: Setup, places: Mapping[int, int] | None = None) -> None:
        check_device(self.scenario)
        refuse_what_nothing_enforces(self.scenario)
        self._tell_device(setup.device)
        self.folder.receive()
        crew = await self._assembled()
        with crew.taken():
            try:
                await self._unless_interrupted(crew.prepare(setup, places))
                await drive(world, crew, self._interrupted, self._watch)
            except PreloadError as error:
                self.result.diagnosis = verdict.never_begun(world, str(error), error.traceback)
                raise
            finally:
                await crew.dismiss(hurry=self._interrupted.is_set())
                self.folder.clear_overflow()

    def _tell_device(self, kind: str) -> None:
        """Say once what the ranks run on."""
        text = told(self.scenario)
        if text and self.result.device is None:
            self._observer.say(text)
        self.result.device = kind

    async def _assembled(self) -> Crew:
        if self._crew is None:
            self._crew = Crew(launcher_of(self.scenario, self.folder), self._observer.say)
            await self._unless_interrupted(self._crew.__aenter__())
        return self._crew

    def _watch(self, world: World) -> None:
        """Show where the ranks stand, and what they ask of the user."""
        for warning in world.exchange.warnings.told():
            if warning.kind == ATTACH and warning.summary not in self._said:
                self._said.add(warning.summary)
                self._observer.say(warning.summary)
        if text := self._forecast.told(world.admission):
            self._observer.say(text)
        self._observer.watch(world)

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
        if world.refused:
            raise RunError(world.refused)
        if world.broke:
            raise RunError(f"{world.broke}; its log in {self.folder.logs} has the traceback")
        if world.diagnosis is not None:
            self.result.diagnosis = world.diagnosis
            raise ProgramError(f"{world.diagnosis.kind}: {world.diagnosis.summary}")

    def _finish(self) -> None:
        """Say how the run as a whole went, and write it down: result.json and its views."""
        states = {stage.status for stage in self.result.stages.values()}
        if not states:  # nothing was begun, so there is nothing to tell
            self.folder.abandon()
            return
        self.result.status = "failed" if "failed" in states else "partial" if "interrupted" in states else "ok"
        self.result.save(self.folder.result)
        if self._seen is not None or self.result.diagnosis is not None:
            from prism.report.views import write_views  # now: while it is loaded, no rank can begin

            with room_in(self.folder.path):
                write_views(self.folder, self.result, self._seen, self.scenario)
