"""What ranks of a stage on a GPU are given: the library that they preload, and what they take from the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.errors import RunError
from prism.folder import Folder
from prism.scenario import STAGES, Capture, Devices, Emulate, Program, Scenario
from prism.stages import kinds, staging
from tests.running import scenario

PROGRAM = Path(__file__).with_name("programs") / "averages.py"


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "gpus", lambda: 1)
    monkeypatch.setattr(staging.residency_abi, "library_path", lambda: Path("/paging.so"))
    monkeypatch.setattr(staging.built, "library_path", lambda: Path("/device.so"))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.delenv(staging.QUEUES, raising=False)


def on_gpu(**blocks: object) -> Scenario:
    return scenario(PROGRAM, devices=Devices(kind="cuda"), **blocks)


def test_captured_ranks_can_be_paged_and_sandbox_ranks_have_the_engine(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    given = on_gpu(program=Program(script=str(PROGRAM), env={"LD_PRELOAD": "own.so"}))
    assert staging.stage_setup(given, folder, "capture", 0).program.env["LD_PRELOAD"] == "/paging.so:own.so"
    emulated = staging.emulation_setup(given, folder, tmp_path, held={}, recorded=False, attach=False)
    assert emulated.program.env == {"LD_PRELOAD": "/device.so:own.so"}


def test_captured_ranks_have_few_queues_unless_somebody_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queues(given: Scenario, stage: str) -> str | None:
        return staging.stage_setup(given, Folder(tmp_path), stage, 0).program.env.get(staging.QUEUES)

    assert [queues(on_gpu(), stage) for stage in ("capture", "calibrate")] == ["2", None]
    own = Program(script=str(PROGRAM), env={staging.QUEUES: "1"})
    assert [queues(on_gpu(program=own), stage) for stage in ("capture", "calibrate")] == ["1", "1"]
    monkeypatch.setenv(staging.QUEUES, "32")
    assert queues(on_gpu(), "capture") is None


def test_sandbox_ranks_that_share_a_gpu_through_mps_have_many_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queues(ranks: int, **own: str) -> str | None:
        program = Program(script=str(PROGRAM), env=own)
        given = on_gpu(emulate=Emulate(sandbox=tuple(range(ranks))), program=program)
        setup = staging.emulation_setup(given, Folder(tmp_path), tmp_path, held={}, recorded=False, attach=False)
        return setup.program.env.get(staging.QUEUES)

    monkeypatch.setattr(staging.nvml, "visible", lambda environment: [0])
    monkeypatch.setattr(staging.mps, "serves", lambda environment: True)
    assert queues(1) is None
    for own in ({staging.QUEUES: "8"}, {staging.QUEUES: "many"}):
        with pytest.raises(RunError, match=r"leave CUDA_DEVICE_MAX_CONNECTIONS out of the environment .* 32"):
            queues(2, **own)
    assert queues(2) == "32"
    assert queues(2, **{staging.QUEUES: "64"}) == "64"
    monkeypatch.setenv(staging.QUEUES, "8")
    with pytest.raises(RunError, match="or set it to 32"):
        queues(2)
    monkeypatch.setattr(staging.mps, "serves", lambda environment: False)
    assert queues(2) is None


@pytest.mark.parametrize(("payloads", "taken"), [("all", "control"), ("control", "control"), ("none", "none")])
def test_a_gpu_that_is_timed_gets_no_large_results(payloads: str, taken: str, tmp_path: Path) -> None:
    given = on_gpu(capture=Capture(payloads=payloads))  # type: ignore[arg-type]
    kept = {stage: staging.stage_setup(given, Folder(tmp_path), stage, 0).kept for stage in ("capture", "calibrate")}
    assert (kept["capture"].payloads, kept["calibrate"].payloads) == (payloads, taken)


def test_on_a_cpu_all_that_is_kept_is_taken(tmp_path: Path) -> None:
    assert staging.stage_setup(scenario(PROGRAM), Folder(tmp_path), "calibrate", 0).kept.payloads == "all"


@pytest.mark.parametrize(("ranks", "kind"), [(1, "cuda"), (2, "cpu")])
def test_slices_are_paced_where_the_scenarios_ranks_run(ranks: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a slice needs of an emulation does not decide again: `replicas` of two sandbox ranks keep this on a CPU."""
    monkeypatch.setattr(kinds, "built_for_cuda", lambda: True)
    monkeypatch.setattr(kinds, "library_path", lambda: Path("/device.so"))
    sandbox = Emulate(sandbox=tuple(range(ranks)), contribution="replicas")
    given = scenario(PROGRAM, devices=Devices(kind="auto"), stages=STAGES, emulate=sandbox)
    assert kinds.device_kind(given) == kind
    timed = staging.paced(given, (0,), 3)
    assert (kinds.device_kind(timed), timed.emulate.contribution, timed.emulate.iterations) == (kind, "zeros", 3)
