"""Processes killed or stopped at random moments: a run ends right, or with a true reason, and leaves nothing behind.

`pytest tests/test_kills.py --kills 500` is the long form.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from prism import trace
from prism.coordinator import Coordinator
from prism.core.graph import Graph
from prism.crew import Lost
from prism.errors import ProgramError, RunError
from prism.net import pulse
from prism.scenario import Scenario
from tests.kills import STAGES, Kill, KillingCrew, kills, marked

PROGRAMS = Path(__file__).with_name("programs")
PATIENCE_S = 60
HANG_NS = 3_000_000_000
"""After so much silence the rank that was stopped is found out; all others have ten minutes, as is the default."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kill" in metafunc.fixturenames:
        metafunc.parametrize("kill", kills(metafunc.config.getoption("--kills")), ids=str)


class Bench:
    """A finished run, to start each stage from, and a crew for as long as it lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"KILLS_OF_A_TEST={uuid.uuid4().hex}"
        name, value = self.mark.split("=")
        os.environ[name] = value
        content = {
            "prism": 1,
            "name": "killed",
            "program": {"script": str(PROGRAMS / "averages.py"), "args": ["12"]},
            "world": {"size": 4},
            "devices": {"kind": "cpu", "slots": 2},
            "calibrate": {"warmup": 1},
            "emulate": {"sandbox": [1, 2], "contribution": "exact"},
            "stages": [*STAGES[:2], "replay", STAGES[2]],
        }
        self.file = folder / "killed.yaml"
        self.file.write_text(json.dumps(content))
        self.scenario = Scenario.load(str(self.file))
        self.loop = asyncio.new_event_loop()
        self.crew: KillingCrew | None = None
        self.events: dict[str, int] = {}
        for stage in STAGES:
            assert self.run(stage, self.out(stage, folder / "done"), None) == ""
            self.events[stage] = self.crew.heard if self.crew is not None else 0

    @property
    def done(self) -> Path:
        return self.folder / "done"

    def out(self, stage: str, path: Path) -> Path:
        """A folder in which all stages before this one are finished."""
        if path != self.done and stage != "capture":
            shutil.copytree(self.done, path)
            progress = json.loads((path / "progress.json").read_text())
            for later in STAGES[STAGES.index(stage) :]:
                progress["stages"].pop(later, None)
            (path / "progress.json").write_text(json.dumps(progress))
        return path

    def run(self, stage: str, out: Path, kill: Kill | None) -> str:
        """Run a stage with a kill; returns the reason for which it failed, "" if it did not."""
        try:
            self.loop.run_until_complete(self._stages(stage, out, kill))
        except Lost as error:
            self.end_crew()
            return str(error)
        except RunError as error:
            return str(error)
        except ProgramError as error:
            return str(error)
        return ""

    async def _stages(self, stage: str, out: Path, kill: Kill | None) -> None:
        if self.crew is None:
            self.crew = KillingCrew()
            await self.crew.__aenter__()
        self.crew.plan(kill, self.events.get(stage, 0))
        async with Coordinator(self.scenario, out, resume=True, crew=self.crew) as run:
            if kill is not None and (kill.victim, kill.signal) == ("rank", signal.SIGSTOP):  # not what is finished
                run.scenario = msgspec.structs.replace(run.scenario, hang_after=HANG_NS)
            graph: Graph = await run.capture()
            if stage != "capture":
                graph = await run.calibrate(graph)
            if stage == "emulate":
                await run.emulate(graph)

    def end_crew(self) -> None:
        """What was lost is not used again; nothing of it stays."""
        crew, self.crew = self.crew, None
        if crew is not None:
            self.loop.run_until_complete(crew.__aexit__())
            assert not crew.scratch.exists()
            nobody_left(self.mark)

    def check(self, stage: str, out: Path) -> None:
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

    def close(self) -> None:
        self.end_crew()
        self.loop.close()
        del os.environ[self.mark.split("=")[0]]


def nobody_left(mark: str) -> None:
    """Return when no process of a run is left."""
    give_up = time.monotonic() + PATIENCE_S
    while found := marked(mark):
        assert time.monotonic() < give_up, f"still there: {found}"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("kills"))
    yield made
    made.close()


def test_a_kill(kill: Kill, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (kill.victim, kill.signal) == ("worker", signal.SIGSTOP):
        monkeypatch.setattr(pulse, "BEATS_MISSED", 3)
    out = bench.out(kill.stage, tmp_path / "out")
    if kill.victim == "coordinator":
        killed_coordinator(kill, bench, out)
        return
    reason = bench.run(kill.stage, out, kill)
    assert bench.crew is None or bench.crew.killed
    if reason:
        assert_true(kill, reason)
        assert bench.run(kill.stage, out, None) == "", "the next run goes on"
    bench.check(kill.stage, out)
    if bench.crew is not None:
        assert len(marked(bench.mark)) == 2, "of a stage that is over, only the worker and the fork server are left"


def assert_true(kill: Kill, reason: str) -> None:
    """The reason names who was killed."""
    rank = reason.partition("rank ")[2][:1]
    told = {
        ("rank", signal.SIGKILL): [f"rank_failed: rank {rank} was killed by SIGKILL"],
        ("rank", signal.SIGSTOP): ["hang: ", " posted nothing and did not end for 3 s"],
        ("assistant", signal.SIGKILL): ["was lost (-9)"],
        ("assistant", signal.SIGSTOP): ["assistant ", "has been stopped by a signal"],
        ("worker", signal.SIGKILL): ["worker-0 was lost (-9)"],
        ("worker", signal.SIGSTOP): ["worker-0 was lost: it has said nothing"],
        ("fork server", signal.SIGKILL): ["the fork server of the ranks has ended"],
        ("fork server", signal.SIGSTOP): ["the fork server of the ranks has been stopped"],
    }
    for words in told[kill.victim, kill.signal]:
        assert words in reason


def killed_coordinator(kill: Kill, bench: Bench, out: Path) -> None:
    """One that is killed leaves nothing but what the next run goes on from; one that is stopped goes on."""
    stages = ["capture", "calibrate", "emulate"][: STAGES.index(kill.stage) + 1]
    mark = f"KILLED_COORDINATOR={uuid.uuid4().hex}"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "tests.kills_itself", str(kill.signal.value),
            str(max(int(bench.events[kill.stage] * kill.moment), 1)),
            str(bench.file), "--out", out, "--resume", "-q", "--json", "--stages", ",".join(stages),
        ],
        env=os.environ | dict([mark.split("=")]), cwd=Path(__file__).parents[1],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    if kill.signal == signal.SIGSTOP:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        os.kill(process.pid, signal.SIGCONT)
    _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (-signal.SIGKILL if kill.signal == signal.SIGKILL else 0), told
    nobody_left(mark)
    assert not list(Path("/dev/shm").glob(f"prism-{process.pid}-*"))
    assert bench.run(kill.stage, out, None) == ""
    bench.check(kill.stage, out)
