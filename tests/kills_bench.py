"""Many kills, several at a time: each in a run of its own, which starts where a finished one stood before the stage.

A lane has a crew for as long as it lives, and does one kill after the other. What a kill came to is an Outcome; that it
is a right one is for the test to say.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
import traceback
import uuid
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from prism import trace
from prism.coordinator import Coordinator
from prism.crew import Lost
from prism.errors import ProgramError, RunError
from prism.gpu.processes.proc import is_stopped
from prism.net.scratch import SHARED_MEMORY
from prism.scenario import Scenario
from tests.kills import STAGES, START_S, STARTING, Kill, KillingCrew, marked

PROGRAM = Path(__file__).with_name("programs") / "averages.py"
MARK = "KILLS_OF_A_TEST"
"""The variable by which the processes of one lane are known."""
PATIENCE_S = 120
"""A run that has not ended by then hangs, on a machine with a CPU for every process that wants one."""
STOPPED_S = 10.0
"""How long a coordinator is stopped at most: longer than the silence after which it would take a worker for lost."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run: who was hit ("" if it ended before that), why it failed ("": it did not), and how soon."""

    hit: str = ""
    reason: str = ""
    seconds: float = 0.0
    load: float = 1.0
    wrong: str = ""  # what must not be


class Bench:
    """The finished run, and what all lanes share."""

    def __init__(self, folder: Path) -> None:
        content = {
            "prism": 1,
            "name": "killed",
            "program": {"script": str(PROGRAM), "args": ["12"]},
            "world": {"size": 4},
            "devices": {"kind": "cpu", "slots": 2},
            "calibrate": {"warmup": 1},
            "emulate": {"sandbox": [1, 2], "contribution": "exact"},
            "stages": [*STAGES[:2], "replay", STAGES[2]],
        }
        self.folder = folder
        self.done = folder / "done"
        self.file = folder / "killed.yaml"
        self.file.write_text(json.dumps(content))
        self.scenario = Scenario.load(str(self.file))
        self.events: dict[str, int] = {}
        self.outcomes: dict[Kill, Outcome] = {}

    async def run(self, planned: Iterable[Kill], lanes: int) -> None:
        """Carry all of them out; what they came to is in `outcomes`."""
        first, queue = Lane(self), deque(planned)
        for stage in STAGES:
            assert await first.attempt(stage, self.done, None) == ""
            assert first.crew is not None
            self.events[stage] = first.crew.heard
        await asyncio.gather(*(lane.work(queue) for lane in (first, *(Lane(self) for _ in range(lanes - 1)))))

    def out(self, kill: Kill) -> Path:
        """A folder in which all stages before the kill's are finished."""
        path = self.folder / f"out-{kill.number}"
        if kill.stage not in ("capture", STARTING):
            shutil.copytree(self.done, path)
            progress = json.loads((path / "progress.json").read_text())
            for later in STAGES[STAGES.index(kill.stage) :]:
                progress["stages"].pop(later, None)
            (path / "progress.json").write_text(json.dumps(progress))
        return path

    def compare(self, out: Path) -> None:
        """The stage came to what it came to in the run without a kill."""
        found, expected = (trace.read(path / "graph.prism").graph for path in (out, self.done))
        for name in ("kind", "ref"):
            assert (found.nodes[name] == expected.nodes[name]).all()
        assert (found.ops == expected.ops).all()
        assert (found.posts == expected.posts).all()
        for log in (self.done / "ranks").glob("*.log"):
            mine = out / "ranks" / log.name
            if mine.exists() and not log.name.startswith("assistant"):
                assert mine.read_text() == log.read_text()


class Lane:
    """One kill after the other."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.crew: KillingCrew | None = None
        self._mark = ""

    async def work(self, queue: deque[Kill]) -> None:
        """Take kills until none is left."""
        while queue:
            kill = queue.popleft()
            self.bench.outcomes[kill] = found = await self._outcome(kill)
            with (self.bench.folder / "outcomes.log").open("a") as log:
                log.write(f"{kill}: {found}\n")
            if not found.wrong:
                shutil.rmtree(self.bench.folder / f"out-{kill.number}", ignore_errors=True)
        await self._end_crew()

    async def attempt(self, stage: str, out: Path, kill: Kill | None, crew: KillingCrew | None = None) -> str:
        """Run a stage with a kill; returns the reason for which it failed, "" if it did not."""
        crew = crew or self.crew or KillingCrew()
        crew.plan(kill, self.bench.events.get(stage, 0))
        try:
            async with asyncio.timeout(PATIENCE_S * load()):
                await self._assemble(crew)
                await self._stages(stage, out, crew)
        except Lost as error:
            await self._end_crew()
            return str(error)
        except (RunError, ProgramError) as error:
            return str(error)
        return ""

    async def _assemble(self, crew: KillingCrew) -> None:
        """Start it, unless it is the one from before."""
        if crew is self.crew:
            return
        os.environ[MARK] = uuid.uuid4().hex
        self._mark = f"{MARK}={os.environ[MARK]}"
        try:
            await crew.__aenter__()
        except BaseException:
            await nobody_left(self._mark)
            raise
        self.crew = crew
        assert crew.worker in marked(self._mark), "after the mark was set another lane has set its own"

    async def _stages(self, stage: str, out: Path, crew: KillingCrew) -> None:
        async with Coordinator(self.bench.scenario, out, resume=True, crew=crew) as run:
            graph = await run.capture()
            if stage in ("calibrate", "emulate"):
                graph = await run.calibrate(graph)
            if stage == "emulate":
                await run.emulate(graph)

    async def _outcome(self, kill: Kill) -> Outcome:
        out, found = self.bench.out(kill), Outcome()
        try:
            found = await (self._of_command(kill, out) if kill.victim == "coordinator" else self._of_crew(kill, out))
            assert await self.attempt(kill.stage, out, None) == "", "the next run goes on"
            self.bench.compare(out)
            if self.crew is not None and kill.victim != "coordinator":
                left = marked(self._mark)
                assert len(left) <= 2, f"of a stage that is over only the worker and the fork server are left: {left}"
        except Exception:
            found = replace(found, wrong=traceback.format_exc())
            await self._end_crew()
        return found

    async def _of_crew(self, kill: Kill, out: Path) -> Outcome:
        if kill.stage == STARTING:
            await self._end_crew()
        crew = self.crew or KillingCrew()
        reason = await self.attempt(kill.stage, out, kill, crew)
        seconds = time.monotonic() - crew.killed_at
        if not reason:
            self.bench.compare(out)
        unnoticed = bool(crew.killed) and not reason
        if kill.blow != "delay" and (unnoticed or not isinstance(kill.blow, signal.Signals)):
            await self._end_crew()  # what came after the last word may be found out only now
        return Outcome(crew.killed, reason, seconds, load())

    async def _of_command(self, kill: Kill, out: Path) -> Outcome:
        """The command itself: one that is killed leaves nothing but what the next run goes on from."""
        stages = STAGES[: STAGES.index(kill.stage) + 1] if kill.stage in STAGES else STAGES[:1]
        events = max(int(self.bench.events.get(kill.stage, 0) * kill.moment), 1) if kill.stage in STAGES else 0
        pause = kill.pause if events else kill.moment * START_S
        mark = f"KILLED_COORDINATOR={uuid.uuid4().hex}"
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.kills_itself", str(int(kill.blow)), str(events), str(pause),
            str(self.bench.file), "--out", str(out), "--resume", "-q", "--json", "--stages", ",".join(stages),
            env=environment | dict([mark.split("=")]), cwd=Path(__file__).parents[1],
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        if kill.blow == signal.SIGSTOP:
            while not is_stopped(process.pid):  # noqa: ASYNC110 no event tells
                await asyncio.sleep(0.01)
            await asyncio.sleep(kill.moment * STOPPED_S)
            os.kill(process.pid, signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_S * load()):
            _, told = await process.communicate()
        ended = time.monotonic()
        wanted = -signal.SIGKILL if kill.blow == signal.SIGKILL else 0
        assert process.returncode == wanted, (process.returncode, told.decode())
        await nobody_left(mark)
        assert not list(SHARED_MEMORY.glob(f"prism-{process.pid}-*"))
        return Outcome("coordinator", "", time.monotonic() - ended, load())

    async def _end_crew(self) -> None:
        """What was lost is not used again; nothing of it stays."""
        crew, self.crew = self.crew, None
        if crew is not None:
            await crew.__aexit__()
            assert not crew.scratch.exists()
            await nobody_left(self._mark)


async def nobody_left(mark: str) -> None:
    """Return when no process of a run is left."""
    give_up = time.monotonic() + PATIENCE_S * load()
    while found := marked(mark):
        assert time.monotonic() < give_up, f"still there: {found}"
        await asyncio.sleep(0.02)


def load() -> float:
    """How many processes want each CPU, in the last minute; at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
