"""Several workers, each as a host of its own: the same results as on one, and what happens when one is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prism.coordinator import Coordinator
from prism.core.events import AnyEvent, Posted
from prism.core.prismtrace import Trace, encode
from prism.crew import Crew, Lost
from prism.errors import RunError
from prism.net.launchers.external import ExternalLauncher
from prism.net.launchers.local import LocalLauncher
from prism.result import Result
from prism.scenario import Calibrate, Emulate, Launcher, Scenario
from tests.running import Run, capture, references, scenario

JOB = Path(__file__).with_name("jobs") / "job_moe.py"
PROGRAMS = Path(__file__).with_name("programs")
WORLD, WORKERS = 6, 3


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


class Bench:
    """Runs on one crew of several workers, as long as none of them is lost."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.crew = self._loop.run_until_complete(Hosts().__aenter__())

    def do(
        self, given: Scenario, out: Path, calibrate: bool = True, resume: bool = False, emulate: bool = False
    ) -> Result:
        async def work() -> Result:
            async with Coordinator(given, out, resume=resume, crew=self.crew) as run:
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


def test_a_rank_is_emulated_on_one_host_and_its_peers_on_others(bench: Bench, tmp_path: Path) -> None:
    pruned = pytest.importorskip("prism.gpu.emulation.clock", exc_type=ImportError)
    if not pruned.settable():
        pytest.skip("prism.gpu._pruned is of an older build, which knows one host")
    given = scenario(
        PROGRAMS / "averages.py", ("6",), 4, 2, launcher=Launcher(workers=WORKERS), calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=(1, 2), contribution="exact"), stages=("capture", "calibrate", "replay", "emulate"),
    )  # fmt: skip
    result = bench.do(given, tmp_path / "out", emulate=True)
    assert result.emulation is not None
    assert result.emulation.sandbox == [1, 2]
    assert all(len(rank.iteration_ns) == 5 and rank.sent_bytes > 0 for rank in result.emulation.ranks)
    assert result.emulation.prefetch.hits > 0
    ranks = tmp_path / "out" / "ranks"
    for rank in (1, 2):
        assert (ranks / f"{rank}.emulate.log").read_text() == (ranks / f"{rank}.log").read_text() != ""


def test_what_several_have_captured_one_can_calibrate(bench: Bench, tmp_path: Path) -> None:
    bench.do(job(), tmp_path / "out", calibrate=False)
    one = job()
    found: list[Result] = []

    async def work() -> None:
        async with Coordinator(one, tmp_path / "out", resume=True, crew=bench.crew) as run:
            run._places = lambda ranks: None  # type: ignore[method-assign, assignment]
            run.replay(await run.calibrate(await run.capture()))
            found.append(run.result)

    bench._loop.run_until_complete(work())
    assert found[0].status == "ok"


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
