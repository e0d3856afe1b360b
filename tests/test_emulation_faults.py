"""Emulations that do not go well: processes that die in the middle, programs that do something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prism.command.main import main
from prism.result import Result
from prism.scenario import Calibrate, Devices, Emulate
from tests.held_run import HeldRun
from tests.running import emulate, scenario

PROGRAMS = Path(__file__).with_name("programs")
STAGES = ("capture", "calibrate", "replay", "emulate")


def held_scenario(folder: Path) -> str:
    """A scenario of four ranks, two of them in the sandbox, whose rank 0 is held when it is emulated first."""
    (folder / "runs").mkdir()
    content = {
        "prism": 1,
        "name": "held",
        "program": {
            "script": str(PROGRAMS / "holds_while_emulated.py"),
            "args": [str(folder / "pipe"), str(folder / "runs")],
        },
        "world": {"size": 4},
        "devices": {"kind": "cpu", "slots": 2},
        "calibrate": {"warmup": 1},
        "emulate": {"sandbox": [0, 1], "contribution": "exact"},
        "stages": STAGES,
    }
    (folder / "held.yaml").write_text(json.dumps(content))
    return str(folder / "held.yaml")


@pytest.mark.parametrize(
    ("log", "code"),
    [("assistant-0.log", 4), ("1.emulate.log", 3), ("", -9)],
    ids=["assistant", "sandbox rank", "coordinator"],
)
def test_when_one_process_is_killed_all_end_and_leave_nothing(log: str, code: int, tmp_path: Path) -> None:
    run = HeldRun(tmp_path, held_scenario(tmp_path))
    try:
        scratch = run.come_to_hold()
        assert run.kill(log) == code
        run.last_process()
        assert not scratch.exists()
    finally:
        run.end()
    if log:
        result = Result.load(tmp_path / "out" / "result.json")
        assert result.status == "failed"
        assert result.stages["emulate"].status == "failed"


def test_another_program_that_does_the_same_is_emulated(tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "averages.py",
        ("3",),
        4,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=(2,), program=str(PROGRAMS / "averages_and_says_so.py")),
    )
    run = emulate(given, tmp_path / "out")
    assert run.result.diagnosis is None
    assert "changed" in run.output[0]


def test_a_program_that_does_something_else_is_told_with_both_sides(tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "averages.py",
        ("3",),
        4,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=(2,), program=str(PROGRAMS / "gathers_instead.py")),
    )
    diagnosis = emulate(given, tmp_path / "out").result.diagnosis
    assert diagnosis is not None
    assert diagnosis.kind == "diverged"
    assert "all_reduce" in diagnosis.summary
    assert "all_gather" in diagnosis.summary
    assert "gathers_instead.py:" in diagnosis.summary
    assert "averages.py:" in diagnosis.summary


def test_a_capture_that_kept_nothing_for_this_sandbox_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "prism": 1,
        "name": "tiny",
        "program": {"script": str(PROGRAMS / "averages.py"), "args": ["3"]},
        "world": {"size": 2},
        "devices": {"kind": "cpu", "slots": 2},
        "calibrate": {"warmup": 1},
        "emulate": {"contribution": "zeros"},
        "stages": STAGES,
    }
    (tmp_path / "tiny.yaml").write_text(json.dumps(content))
    out = str(tmp_path / "out")
    assert main([str(tmp_path / "tiny.yaml"), "--out", out, "-q"]) == 0
    capsys.readouterr()
    again = [str(tmp_path / "tiny.yaml"), "--out", out, "-q", "--resume", "--stages", "emulate"]
    assert main([*again, "--set", "emulate.contribution=exact"]) == 2
    assert "kept less than its emulation needs" in capsys.readouterr().err


def test_a_sandbox_rank_that_needs_more_memory_than_there_is_runs_out_of_it(tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "averages.py",
        ("3",),
        2,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        devices=Devices(kind="cpu", memory=1 << 29),
        emulate=Emulate(sandbox=(1,), program=str(PROGRAMS / "averages_in_much_memory.py")),
    )
    diagnosis = emulate(given, tmp_path / "out").result.diagnosis
    assert diagnosis is not None
    assert diagnosis.kind == "oom"
    assert "averages_in_much_memory.py:" in str(diagnosis.ranks[0].callsite)


def test_an_interrupted_emulation_goes_on_from_the_payloads_on_disk(tmp_path: Path) -> None:
    file = held_scenario(tmp_path)
    run = HeldRun(tmp_path, file)
    try:
        run.come_to_hold()
        assert run.interrupt() == 130
    finally:
        run.end()
    assert main([file, "--out", str(tmp_path / "out"), "--resume", "-q"]) == 0
    result = Result.load(tmp_path / "out" / "result.json")
    assert [result.stages[stage].status for stage in STAGES] == ["reused", "reused", "ok", "ok"]
    for rank in (0, 1):
        captured, emulated = (
            (tmp_path / "out" / "ranks" / f"{rank}.{end}").read_text() for end in ("log", "emulate.log")
        )
        assert captured == emulated != ""
