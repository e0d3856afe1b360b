"""Running programs under PRISM from tests, and reading what they printed."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from prism.coordinator import Coordinator
from prism.core.graph import Graph
from prism.crew import Crew
from prism.errors import ProgramError
from prism.result import Result
from prism.scenario import Devices, Program, Scenario, World

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """What a capture left: its result, its graph (None if it failed), and each rank's output."""

    result: Result
    graph: Graph | None
    output: list[str]
    folder: Path


def scenario(script: Path, args: tuple[str, ...] = (), world: int = 2, slots: int = 2, **blocks: Any) -> Scenario:
    """A scenario for a script, on a CPU and under gloo's rules; `blocks` are further blocks of the scenario."""
    defaults: dict[str, Any] = {
        "program": Program(script=str(script), args=args),
        "devices": Devices(kind="cpu", slots=slots),
        "semantics": "gloo",
    }
    return Scenario(name=script.stem, world=World(size=world), **{**defaults, **blocks})


def capture(given: Scenario, out: Path) -> Run:
    """Capture a scenario on the bench's crew; a failure of its program is part of the answer."""
    return _bench().run(given, out)


def predict(given: Scenario, out: Path) -> Run:
    """Capture a scenario, calibrate and replay it, on the bench's crew; raises ProgramError if its program fails."""
    return _bench().predict(given, out)


def emulate(given: Scenario, out: Path) -> Run:
    """Take a scenario through all stages, emulation included; `output` is the sandbox ranks' there."""
    return _bench().emulate(given, out)


def on_the_bench(work: Callable[[Crew], Awaitable[T]]) -> T:
    """What the work gives that uses the bench's crew."""
    return _bench().do(work)


class Bench:
    """One crew for all captures of this process: importing torch for its ranks costs seconds, and is paid once."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._crew: Crew = self._loop.run_until_complete(Crew().__aenter__())
        atexit.register(self.close)

    def run(self, given: Scenario, out: Path) -> Run:
        """Capture the scenario."""
        return self._loop.run_until_complete(self._capture(given, out))

    def predict(self, given: Scenario, out: Path) -> Run:
        """Take the scenario through all stages."""
        return self._loop.run_until_complete(self._predict(given, out))

    def emulate(self, given: Scenario, out: Path) -> Run:
        """Take the scenario through all stages; a failure of the emulation is part of the answer."""
        return self._loop.run_until_complete(self._emulate(given, out))

    def do(self, work: Callable[[Crew], Awaitable[T]]) -> T:
        """Whatever is to be done with the crew."""

        async def done() -> T:
            return await work(self._crew)

        return self._loop.run_until_complete(done())

    def close(self) -> None:
        """End the crew."""
        self._loop.run_until_complete(self._crew.__aexit__())
        self._loop.close()

    async def _capture(self, given: Scenario, out: Path) -> Run:
        graph = None
        async with Coordinator(given, out, crew=self._crew) as run:
            with contextlib.suppress(ProgramError):
                graph = await run.capture()
        logs = [out / "ranks" / f"{rank}.log" for rank in range(given.world.size)]
        return Run(run.result, graph, [log.read_text() if log.exists() else "" for log in logs], out)

    async def _predict(self, given: Scenario, out: Path) -> Run:
        async with Coordinator(given, out, crew=self._crew) as run:
            graph = await run.calibrate(await run.capture())
            run.replay(graph)
        return Run(run.result, graph, [], out)

    async def _emulate(self, given: Scenario, out: Path) -> Run:
        async with Coordinator(given, out, crew=self._crew) as run:
            graph = await run.calibrate(await run.capture())
            run.replay(graph)
            with contextlib.suppress(ProgramError):
                await run.emulate(graph)
        logs = [out / "ranks" / f"{rank}.emulate.log" for rank in given.emulate.sandbox]
        return Run(run.result, graph, [log.read_text() if log.exists() else "" for log in logs], out)


@functools.cache
def _bench() -> Bench:
    return Bench()


def references(output: list[str]) -> list[dict[str, Any]]:
    """The REF lines of a job, by rank."""
    lines = [line for text in output for line in text.splitlines() if line.startswith("REF ")]
    return sorted((json.loads(line.removeprefix("REF ")) for line in lines), key=lambda ref: ref["rank"])
