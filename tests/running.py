"""Running programs under PRISM from tests, and reading what they printed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism.coordinator import Coordinator
from prism.core.graph import Graph
from prism.errors import ProgramError
from prism.result import Result
from prism.scenario import Capture, Devices, Program, Scenario, World


@dataclass(frozen=True)
class Run:
    """What a capture left: its result, its graph (None if it failed), and each rank's output."""

    result: Result
    graph: Graph | None
    output: list[str]
    folder: Path


def scenario(script: Path, args: tuple[str, ...] = (), world: int = 2, slots: int = 2, **blocks: Any) -> Scenario:
    """A scenario for a script, on a CPU."""
    return Scenario(
        name=script.stem,
        program=Program(script=str(script), args=args),
        world=World(size=world),
        devices=Devices(kind="cpu", slots=slots),
        semantics="gloo",
        capture=Capture(),
        **blocks,
    )


def capture(given: Scenario, out: Path) -> Run:
    """Capture a scenario; a failure of its program is part of the answer."""
    return asyncio.run(_capture(given, out))


async def _capture(given: Scenario, out: Path) -> Run:
    graph = None
    async with Coordinator(given, out) as run:
        with contextlib.suppress(ProgramError):
            graph = await run.capture()
    logs = [out / "ranks" / f"{rank}.log" for rank in range(given.world.size)]
    return Run(run.result, graph, [log.read_text() if log.exists() else "" for log in logs], out)


def references(output: list[str]) -> list[dict[str, Any]]:
    """The REF lines of a job, by rank."""
    lines = [line for text in output for line in text.splitlines() if line.startswith("REF ")]
    return sorted((json.loads(line.removeprefix("REF ")) for line in lines), key=lambda ref: ref["rank"])
