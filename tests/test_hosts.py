"""Several workers, each as a host of its own: the same results as on one, and what happens when one is lost."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prism.coordinator import Coordinator
from prism.core.events import AnyEvent, Posted
from prism.core.prismtrace import Trace, encode
from prism.core.record import lying
from prism.crew import Crew, Lost
from prism.errors import RunError
from prism.folder import Folder
from prism.live.observer import Silent
from prism.net.launchers.external import ExternalLauncher
from prism.net.launchers.local import LocalLauncher
from prism.net.scratch import lies_in_memory
from prism.result import Result
from prism.scenario import Calibrate, Devices, Emulate, Launcher, Network, Scenario, World
from prism.stages import measuring
from tests.running import Run, capture, emulate, references, scenario

JOB = Path(__file__).with_name("jobs") / "job_moe.py"
PROGRAMS = Path(__file__).with_name("programs")
WORLD, WORKERS = 6, 3
PAYLOAD = 4 << 12
"""Bytes of a sum of programs/across_nodes.py."""


class Hosts(Crew):
    """Three workers; one can be killed once a rank has posted so often since that was planned."""

    def __init__(self) -> None:
        super().__init__(LocalLauncher(WORKERS))
        self.said: list[str] = []
        self._doomed: tuple[int, int] | None = None  # worker, posts that are left

    def kill(self, worker: int, after: int) -> None:
        self._doomed = worker, after

    async def events(self) -> tuple[AnyEvent, ...]:
        found = await super().events()
        if self._doomed is not None:
            worker, left = self._doomed
            left -= sum(isinstance(event, Posted) for event in found)
            self._doomed = (worker, left) if left > 0 else None
            if left <= 0:
                self.started[worker].kill()
        return found


class Heard(Silent):
    """Notes what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class Bench:
    """Runs on one crew of several workers, as long as none of them is lost."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.crew = self._loop.run_until_complete(Hosts().__aenter__())

    def do(
        self,
        given: Scenario,
        out: Path,
        calibrate: bool = True,
        resume: bool = False,
        emulate: bool = False,
        observer: Silent | None = None,
    ) -> Result:
        async def work() -> Result:
            async with Coordinator(given, out, resume=resume, crew=self.crew, observer=observer) as run:
                graph = await run.capture()
                if calibrate:
                    run.replay(await run.calibrate(graph))
                if emulate:
                    await run.emulate(run.load_graph("calibrate"))
                self.graph = graph
                return run.result

        return self._loop.run_until_complete(work())

    def close(self) -> None:
        self._loop.run_until_complete(self.crew.__aexit__())
        self._loop.close()


@pytest.fixture(scope="module")
def benches() -> Iterator[list[Bench]]:
    """The one that is used, last: another takes its place when it has lost workers."""
    made = [Bench()]
    yield made
    for bench in made:
        bench.close()


@pytest.fixture
def bench(benches: list[Bench]) -> Bench:
    if benches[-1].crew.size < WORKERS:
        benches.append(Bench())
    return benches[-1]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The job on one worker."""
    return capture(job(), tmp_path_factory.mktemp("alone") / "out")


def job(**blocks: Any) -> Scenario:
    return scenario(JOB, ("3",), WORLD, 2, launcher=Launcher(workers=WORKERS), calibrate=Calibrate(warmup=1), **blocks)


def losses(out: Path, name: str = "{}.log") -> list[Any]:
    return [
        report["loss"] for report in references([(out / "ranks" / name.format(r)).read_text() for r in range(WORLD)])
    ]


def test_graph_and_losses_are_those_of_one_host(bench: Bench, alone: Run, tmp_path: Path) -> None:
    result = bench.do(job(), tmp_path / "out")
    assert alone.graph is not None
    assert b"".join(encode(Trace(bench.graph))) == b"".join(encode(Trace(alone.graph)))
    assert losses(tmp_path / "out") == losses(alone.folder)
    assert losses(tmp_path / "out", "{}.calibrate.log") == losses(alone.folder)
    assert result.calibration is not None
    assert result.calibration.measured_ranks == list(range(WORLD))
    files = {path.name.partition(".")[0] for path in (tmp_path / "out" / "payloads").iterdir() if path.is_file()}
    assert files == {f"worker-{number}" for number in range(WORKERS)}


@pytest.mark.parametrize(
    ("program", "sandbox", "assistants"),
    [("averages.py", (1, 2), 2), ("passes_on.py", (1,), 2)],
    ids=["one for each rank", "two for a rank in a pipeline"],
)
def test_a_rank_is_emulated_on_one_host_and_its_peers_on_others(
    program: str, sandbox: tuple[int, ...], assistants: int, bench: Bench, tmp_path: Path
) -> None:
    pruned = pytest.importorskip("prism.gpu.emulation.clock", exc_type=ImportError)
    if not pruned.settable():
        pytest.skip("prism.gpu._pruned is of an older build, which knows one host")
    given = scenario(
        PROGRAMS / program, ("6",), 4, 2, launcher=Launcher(workers=WORKERS), calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=sandbox, contribution="exact"), stages=("capture", "calibrate", "replay", "emulate"),
    )  # fmt: skip
    result = bench.do(given, tmp_path / "out", emulate=True)
    assert result.emulation is not None
    assert result.emulation.sandbox == list(sandbox)
    assert all(len(rank.iteration_ns) == 5 and rank.sent_bytes > 0 for rank in result.emulation.ranks)
    assert result.emulation.prefetch.hits > 0
    ranks = tmp_path / "out" / "ranks"
    assert len(list(ranks.glob("assistant-*.log"))) == assistants
    for rank in sandbox:
        assert (ranks / f"{rank}.emulate.log").read_text() == (ranks / f"{rank}.log").read_text() != ""


def test_what_several_have_captured_one_can_calibrate(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the others have is brought to it."""
    bench.do(job(), tmp_path / "out", calibrate=False)
    monkeypatch.setattr(measuring, "deal", lambda held, workers: [0] * len(held))
    assert bench.do(job(), tmp_path / "out", resume=True).status == "ok"
    assert losses(tmp_path / "out", "{}.calibrate.log") == losses(tmp_path / "out")


def test_ranks_that_talk_most_are_on_one_host_once_that_is_known(bench: Bench, tmp_path: Path) -> None:
    """Pairs that cut across nodes: what they get lies on another host for one of both, and on its own the next time."""
    heard, out = Heard(), tmp_path / "out"
    given = scenario(PROGRAMS / "across_nodes.py", world=WORLD, launcher=Launcher(workers=WORKERS))
    given = msgspec.structs.replace(given, world=World(size=WORLD, ranks_per_node=2))
    bench.do(given, out, calibrate=False, observer=heard)
    assert crossed(bench.crew, out) == 3 * 3 * PAYLOAD
    printed = [(out / "ranks" / f"{rank}.log").read_text() for rank in range(WORLD)]
    again = msgspec.structs.replace(given, hang_after=2 * given.hang_after)  # what was captured before counts no more
    bench.do(again, out, calibrate=False, resume=True, observer=heard)
    assert crossed(bench.crew, out) == 0
    assert [(out / "ranks" / f"{rank}.log").read_text() for rank in range(WORLD)] == printed
    told = "ranks are placed by what they said to each other in the capture before: 0 B cross hosts, of 144.0 KiB"
    assert [line for line in heard.lines if "placed" in line] == [f"{told} by nodes"]


def crossed(crew: Crew, out: Path) -> int:
    """The bytes of results that lie on another host than who got them; ranks are where they ran in the last stage."""
    found = (lying(Folder(out).load_record(rank)) for rank in range(WORLD))
    return sum(of.total() - of[crew._ranks[rank]] for rank, of in enumerate(found))


def test_a_lost_worker_is_told_with_its_ranks_or_its_slices_run_elsewhere(bench: Bench, tmp_path: Path) -> None:
    """One crew that gets smaller: first in a calibration, which goes on, then in a capture, which cannot."""
    bench.do(job(), tmp_path / "out", calibrate=False)
    bench.crew.kill(1, after=20)
    result = bench.do(job(), tmp_path / "out", resume=True)
    assert bench.crew.size == WORKERS - 1
    assert result.status == "ok"
    assert losses(tmp_path / "out", "{}.calibrate.log") == losses(tmp_path / "out")
    bench.crew.kill(2, after=20)
    with pytest.raises(Lost, match=r"worker-2 was lost \(-9\).*; lost with it: what ranks 3-5 had done of this stage"):
        bench.do(job(), tmp_path / "again")


@pytest.mark.skipif(importlib.util.find_spec("prism.gpu._spill") is None, reason="ext/spill is not built")
def test_each_host_has_memory_of_its_own(bench: Bench, tmp_path: Path) -> None:
    if lies_in_memory(tmp_path):
        pytest.skip("temporary files lie in memory here")
    (tmp_path / "spill").mkdir()
    heard, program = Heard(), PROGRAMS / "holds_and_sums.py"
    devices = Devices(kind="cpu", slots=1, host_memory=250 << 20, spill=str(tmp_path / "spill"))
    given = scenario(program, world=9, devices=devices, launcher=Launcher(workers=WORKERS))
    bench.do(given, tmp_path / "out", calibrate=False, observer=heard)
    told = [line for line in heard.lines if line.startswith("3 ranks of one worker will take about ")]
    assert told[-1].endswith("of host memory; they spill what they hold above 250.0 MiB")
    free = capture(scenario(program, world=9), tmp_path / "free")
    assert [(tmp_path / "out" / "ranks" / f"{rank}.log").read_text() for rank in range(9)] == free.output


@pytest.mark.parametrize(
    ("contribution", "network"),
    [("replicas", Network()), ("exact", Network(algorithm="tree"))],
    ids=["replicas", "trees"],
)
def test_what_cannot_cross_hosts_in_an_emulation_stays_on_one(
    contribution: Any, network: Network, bench: Bench, tmp_path: Path
) -> None:
    pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
    given = scenario(
        PROGRAMS / "averages.py", ("6",), 4, 2, launcher=Launcher(workers=WORKERS), calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=(1, 2), contribution=contribution), network=network,
        stages=("capture", "calibrate", "replay", "emulate"),
    )  # fmt: skip
    result = bench.do(given, tmp_path / "out", emulate=True)
    alone = emulate(msgspec.structs.replace(given, launcher=Launcher()), tmp_path / "alone")
    assert result.emulation is not None
    assert alone.result.emulation is not None
    sent = [rank.sent_bytes for rank in result.emulation.ranks]
    assert sent == [rank.sent_bytes for rank in alone.result.emulation.ranks]
    logs = [(tmp_path / "out" / "ranks" / f"{rank}.emulate.log").read_text() for rank in (1, 2)]
    assert logs == alone.output


async def test_workers_that_do_not_come_are_waited_for_and_told(tmp_path: Path) -> None:
    token = tmp_path / "token"
    said: list[str] = []
    launcher = ExternalLauncher(2, "tcp://127.0.0.1:*", token, wait_s=0.05)
    with pytest.raises(
        RunError, match=r"0 of 2 workers have come in 0 s to tcp://127.0.0.1:\d+; start each with `python -m"
    ):
        await Crew(launcher, said.append).__aenter__()
    assert said[0].startswith("waiting for 2 workers; start each with `python -m prism.gpu.worker --coordinator tcp://")
    assert not token.exists()
