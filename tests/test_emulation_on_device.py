"""Emulation on a GPU without one: the whole way of a sandbox rank, with a stand-in for NCCL and the engine there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prism import coordinator
from prism.core.emulation.communicator_memory import Uses, communicator_bytes
from prism.core.emulation.sandboxed import Sandboxed
from prism.errors import ProgramError
from prism.net.messages import Setup
from prism.result import Result
from prism.scenario import Calibrate, Emulate, Fold
from prism.stages import emulation
from tests.running import capture, references, scenario
from tests.test_emulation import moved_in_a_full_ring

JOBS = Path(__file__).with_name("jobs")
PROGRAMS = Path(__file__).with_name("programs")
STAGES = ("capture", "calibrate", "replay", "emulate")

pytestmark = pytest.mark.usefixtures("on_device")


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulation takes the way of a GPU, after a capture that took that of a CPU."""
    plain = coordinator.emulation_setup

    def setup(*arguments: Any) -> Setup:
        made = plain(*arguments)
        program = msgspec.structs.replace(made.program, preload=("tests.gpu.fake_device",))
        return msgspec.structs.replace(made, device="cuda", program=program)

    monkeypatch.setattr(coordinator, "emulation_setup", setup)
    monkeypatch.setattr(emulation, "device_kind", lambda _: "cuda")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))


class Emulated:
    """A program under all stages; `logs` are what each sandbox rank said when captured and when emulated."""

    def __init__(
        self, script: Path, args: tuple[str, ...], world: int, out: Path, fold: Fold | None = None, **emulate: Any
    ) -> None:
        self.given = given = scenario(
            script, args, world, semantics="nccl", stages=STAGES, calibrate=Calibrate(warmup=1), fold=fold,
            emulate=Emulate(**emulate),
        )  # fmt: skip
        self.result: Result | None = None
        self.error = ""
        asyncio.run(self._run(coordinator.Coordinator(given, out)))
        names = [(f"{rank}.log", f"{rank}.emulate.log") for rank in given.emulate.sandbox]
        self.logs = [tuple((out / "ranks" / one).read_text() for one in both) for both in names]

    async def _run(self, given: coordinator.Coordinator) -> None:
        async with given as run:
            self.graph = await run.calibrate(await run.capture())
            run.replay(self.graph)
            try:
                self.result = await run.emulate(self.graph)
            except ProgramError:
                self.result = run.result


def test_another_thread_may_post_at_another_moment_than_in_the_capture(tmp_path: Path) -> None:
    run = Emulated(
        PROGRAMS / "posts_beside.py", (str(tmp_path),), 3, tmp_path / "out", sandbox=(0, 1), contribution="exact"
    )
    assert run.result is not None
    assert run.result.diagnosis is None
    for captured, emulated in run.logs:
        assert captured == emulated


@pytest.mark.parametrize(("job", "world", "sandbox"), [("ddp", 2, (0,)), ("moe", 4, (1, 2))])
def test_exact_contributions_give_the_captures_bits(
    job: str, world: int, sandbox: tuple[int, ...], tmp_path: Path
) -> None:
    run = Emulated(JOBS / f"job_{job}.py", ("3",), world, tmp_path / "out", sandbox=sandbox, contribution="exact")
    assert run.result is not None
    assert run.result.diagnosis is None
    for captured, emulated in run.logs:
        assert [one["loss"] for one in references([captured])] == [one["loss"] for one in references([emulated])]
    assert run.result.emulation is not None
    assert [rank.rank for rank in run.result.emulation.ranks] == list(sandbox)
    assert all(len(rank.iteration_ns) == 2 for rank in run.result.emulation.ranks)


@pytest.mark.parametrize(("job", "world"), [("ddp", 1024), ("fsdp2", 64), ("moe", 64)])
def test_a_rank_among_those_that_are_folded(job: str, world: int, tmp_path: Path) -> None:
    fold = Fold(mesh={"dp": world}, over=("dp",))
    run = Emulated(JOBS / f"job_{job}.py", ("3",), world, tmp_path / "out", fold, sandbox=(0,), contribution="exact")
    assert run.result is not None
    assert run.result.diagnosis is None, run.result.diagnosis
    ((captured, emulated),) = run.logs
    assert [one["loss"] for one in references([captured])] == [one["loss"] for one in references([emulated])]
    assert references([emulated])[0]["world"] == world


@pytest.mark.parametrize("sandbox", [(1,), (0, 2)])
def test_every_operation_gives_what_it_gave_when_it_was_captured(sandbox: tuple[int, ...], tmp_path: Path) -> None:
    run = Emulated(PROGRAMS / "device_collectives.py", (), 4, tmp_path / "out", sandbox=sandbox, contribution="exact")
    assert run.result is not None
    assert run.result.diagnosis is None, run.result.diagnosis
    for captured, emulated in run.logs:
        assert emulated == captured != ""


@pytest.mark.parametrize(
    ("world", "sandbox", "fold"), [(6, (0, 2, 5), None), (48, (0,), Fold(mesh={"dp": 48}, over=("dp",)))]
)
def test_sandbox_ranks_move_what_they_would_among_real_ranks(
    world: int, sandbox: tuple[int, ...], fold: Fold | None, tmp_path: Path
) -> None:
    run = Emulated(PROGRAMS / "symmetric.py", (), world, tmp_path / "out", fold, sandbox=sandbox)
    assert run.result is not None
    assert run.result.emulation is not None
    for rank in run.result.emulation.ranks:
        assert (rank.steps, rank.sent_bytes) == moved_in_a_full_ring(run, rank.rank)  # type: ignore[arg-type]
        assert rank.received_bytes == rank.sent_bytes
        nodes = [member // run.given.world.ranks_per_node for member in range(world)]
        peers = frozenset(range(world)) - {rank.rank}
        assert rank.communicator_bytes == communicator_bytes(nodes, rank.rank, Uses(True, peers, frozenset()))


def test_replicas_bring_what_the_sandbox_rank_brings(tmp_path: Path) -> None:
    run = Emulated(PROGRAMS / "averages.py", ("3",), 2, tmp_path / "out", sandbox=(0,), contribution="replicas")
    ((captured, emulated),) = run.logs
    alone = capture(scenario(PROGRAMS / "averages.py", ("3",), 1), tmp_path / "alone")
    assert emulated == alone.output[0] != captured


def test_a_program_that_does_something_else_is_told_with_both_sides(tmp_path: Path) -> None:
    other = str(PROGRAMS / "gathers_instead.py")
    run = Emulated(PROGRAMS / "averages.py", ("3",), 4, tmp_path / "out", sandbox=(2,), program=other)
    assert run.result is not None
    assert run.result.diagnosis is not None
    assert run.result.diagnosis.kind == "diverged"
    assert "now all_gather of" in run.result.diagnosis.summary


def paced(script: Path, args: tuple[str, ...], world: int, out: Path) -> coordinator.Coordinator:
    """A program calibrated beside the communication that it would have; all ranks one by one."""
    calibrate = Calibrate(warmup=1, answers="paced", slice=1)
    given = coordinator.Coordinator(scenario(script, args, world, semantics="nccl", calibrate=calibrate), out)

    async def run() -> None:
        async with given as ranks:
            ranks.replay(await ranks.calibrate(await ranks.capture()))

    asyncio.run(run())
    return given


def test_paced_ranks_get_what_steers_them_and_are_timed_by_the_device(tmp_path: Path) -> None:
    told = []
    with pytest.MonkeyPatch.context() as patch:
        hear = Sandboxed.timed
        patch.setattr(Sandboxed, "timed", lambda self, event: (told.append(event), hear(self, event))[1])
        run = paced(PROGRAMS / "device_collectives.py", (), 4, tmp_path / "out")
    assert run.result.iteration_ns is not None
    assert len(run.result.iteration_ns) == 1
    assert run.result.calibration is not None
    assert [one.throttled for one in run.result.calibration.clocks] == [["power cap"]] * 4
    for rank in range(4):
        captured, emulated = (
            [line for line in (tmp_path / "out" / "ranks" / name).read_text().splitlines() if "future" not in line]
            for name in (f"{rank}.log", f"{rank}.emulate.log")
        )
        assert emulated == captured != []  # of what a future gives nobody is told that it is waited for
        segments = [ns for event in told if event.rank == rank for ns in event.durations]
        steps = run.folder.load_record(rank).steps
        assert len(segments) == len(steps)
        assert min(segments[1:]) >= 0


def test_paced_calibration_of_a_job_has_its_structure(tmp_path: Path) -> None:
    run = paced(JOBS / "job_ddp.py", ("3",), 2, tmp_path / "out")
    assert run.result.iteration_ns is not None
    assert len(run.result.iteration_ns) == 2
    for rank in range(2):
        ranks = tmp_path / "out" / "ranks"
        captured, emulated = (
            references([(ranks / name).read_text()])[0]["loss"] for name in (f"{rank}.log", f"{rank}.emulate.log")
        )
        assert len(emulated) == len(captured) == 3
        assert emulated[0] == captured[0]  # before the first sum of gradients, to which virtual ranks bring zeros
