"""A sandbox rank that waits for a debugger: pdb over a socket."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from prism.coordinator import Coordinator
from prism.core.stage.world import World
from prism.scenario import Calibrate, Emulate
from tests.running import scenario

PROGRAMS = Path(__file__).with_name("programs")
STAGES = ("capture", "calibrate", "replay", "emulate")


class Debugging:
    """An observer that attaches as soon as it is told where, looks at a variable, and lets the program go on."""

    def __init__(self) -> None:
        self.heard = ""
        self.talk: asyncio.Task[None] | None = None

    def begin(self, stage: str) -> None: ...
    def step(self, done: int, total: int) -> None: ...
    def watch(self, world: World) -> None: ...
    def end(self, stage: str, status: str, wall_s: float) -> None: ...

    def say(self, text: str) -> None:
        found = re.search(r"rank 1 waits for a debugger: nc (\S+) (\d+)", text)
        assert found is not None, text
        self.talk = asyncio.get_running_loop().create_task(self._talk(found[1], int(found[2])))

    async def _talk(self, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"where\np __name__\nc\n")
        self.heard = (await reader.read()).decode()
        writer.close()


async def test_a_debugger_stops_at_the_programs_first_line(tmp_path: Path) -> None:
    observer = Debugging()
    given = scenario(
        PROGRAMS / "averages.py",
        ("3",),
        2,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=(1,)),
    )
    async with Coordinator(given, tmp_path / "out", observer=observer) as run:
        graph = await run.calibrate(await run.capture())
        result = await run.emulate(graph, attach=True)
    assert observer.talk is not None
    await observer.talk
    assert re.search(r"averages\.py\(\d\)<module>\(\)", observer.heard), observer.heard
    assert "'__main__'" in observer.heard
    assert result.emulation is not None
    assert len(result.emulation.ranks[0].iteration_ns) == 2
