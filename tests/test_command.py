"""The command line as its users meet it: exit codes, one-line errors, resuming, and Ctrl-C at any moment."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prism import __version__
from prism.command.main import main
from prism.folder import Folder
from prism.result import Result
from tests.held_run import HeldRun

PROGRAMS = Path(__file__).with_name("programs")


def write_scenario(folder: Path, script: Path = PROGRAMS / "averages.py", **program: Any) -> str:
    """A scenario of two ranks on two slots; the path of its file."""
    path = folder / "tiny.yaml"
    content = {
        "prism": 1,
        "name": "tiny",
        "program": {"script": str(script), **program},
        "world": {"size": 2},
        "devices": {"kind": "cpu", "slots": 2},
    }
    path.write_text(json.dumps(content))  # all JSON is YAML
    return str(path)


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    return write_scenario(tmp_path, args=["4"])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "a scenario file is missing"),
        (["missing.yaml"], "missing.yaml:1: $: no such file"),
        (["SCENARIO", "--wat"], "unrecognized arguments: --wat"),
        (["SCENARIO", "-q", "-v"], "not allowed with"),
        (["SCENARIO", "--stages", "fly"], "$.stages[0]: expected calibrate, capture, emulate or replay, got 'fly'"),
        (["SCENARIO", "--set", "world"], "expected key.path=value"),
        (["SCENARIO", "--set", "world.size=0"], "$.world.size: expected an integer of at least 1, got 0"),
        (["SCENARIO", "--sandbox", "0"], "--sandbox: emulate is not among the stages; add it with --stages"),
        (["SCENARIO", "--attach"], "--attach: emulate is not among the stages; add it with --stages"),
        (["SCENARIO", "--stages", "emulate", "--sandbox", "7"], "$.emulate.sandbox[0]"),
        (["SCENARIO", "--serve", "http"], "--serve: expected a port, got http; the scenario stands before --serve"),
        (["SCENARIO", "--", "4"], "`--` and arguments of the program belong to --init"),
        (["--init", "train.py"], "--init train.py: no such file"),
        (["SCENARIO", "--out", "SCENARIO"], "is a file; name a folder"),
        (["SCENARIO", "--out", "SCENARIO/out"], "tiny.yaml/out: Not a directory; name another folder"),
        (["SCENARIO", "--out", "x" * 300], "xxx: File name too long; name another folder"),
        (["SCENARIO", "--stages", "replay"], "no finished calibrate of this scenario; add calibrate to the stages"),
        (["SCENARIO", "--stages", "calibrate"], "no finished capture of this scenario; add capture to the stages"),
        (["SCENARIO", "--stages", "capture,replay"], "no finished calibrate of this scenario; add calibrate to the"),
        (["SCENARIO", "--stages", "capture,emulate"], "no finished calibrate of this scenario; add calibrate to the"),
    ],
)
def test_what_is_refused_is_one_line_and_leaves_nothing(
    arguments: list[str], words: str, scenario: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(out), *(a.replace("SCENARIO", scenario) for a in arguments)]) == 2
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.count("\n") == 1
    assert words in complaint
    assert not out.exists()


def test_an_error_in_the_file_names_its_line(scenario: str, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(scenario).write_text("prism: 1\nname: tiny\nprogram: {script: train.py}\nworld:\n  size: many\n")
    assert main([scenario, "--out", str(out)]) == 2
    assert capsys.readouterr().err == f"{scenario}:5: $.world.size: expected an integer of at least 1, got 'many'\n"


def test_a_folder_that_holds_something_is_not_touched(
    scenario: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out.mkdir()
    (out / "thesis.txt").touch()
    assert main([scenario, "--out", str(out)]) == 2
    assert "is not empty; add --resume to go on with it (what has changed runs again), " in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_a_folder_in_which_a_run_goes_on_is_no_other_runs(
    scenario: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Folder(out)
    first.begin(resume=False)
    assert main([scenario, "--out", str(out), "--resume"]) == 2
    assert capsys.readouterr().err == (
        f"--out: {out} has another run going on in it; let that end, or name another folder\n"
    )
    first.release()
    Folder(out).begin(resume=True)


def test_a_terminal_without_the_letters_gets_escapes(scenario: str, out: Path) -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "prism.coordinator", scenario, "--explain", "--out", str(out)]
    done = subprocess.run(command, env=ascii_only, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3.00 \\xb5s inside nodes" in done.stdout


def test_a_reader_who_has_gone_is_no_error_of_ours(scenario: str, out: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "prism.coordinator", scenario, "--explain", "--out", str(out)]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


def test_streams_may_be_closed(scenario: str, out: Path) -> None:
    command = f"{sys.executable} -m prism.coordinator {scenario} --stages capture --out {out} <&- >&- 2>&-"
    assert subprocess.run(command, shell=True).returncode == 0
    assert Result.load(out / "result.json").status == "ok"


def test_what_the_system_refuses_is_told_with_the_file(
    scenario: str, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/mine")

    monkeypatch.setattr(Folder, "clear_capture", refuse)
    assert main([scenario, "--out", str(out), "-q"]) == 4
    assert "prism: /mine: Permission denied; -v shows where\n" in capsys.readouterr().err


# -- what is printed -----------------------------------------------------------------------------------------------


def test_the_version() -> None:
    command = [sys.executable, "-m", "prism.coordinator", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"prism {__version__}, Python ")
    assert [
        word for word in ("torch 2.", "CUDA ", "NCCL ", "driver ", "GPUs: ", "kernel ") if word not in done.stdout
    ] == []


def test_a_failing_program_is_exit_3_with_its_traceback_first(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = write_scenario(tmp_path, PROGRAMS / "leaves.py", args=["raise"])
    assert main([scenario, "--out", str(out), "-q"]) == 3
    printed, complaint = capsys.readouterr()
    assert complaint == ""
    order = [
        "tiny: failed, 2 ranks",
        "rank 1: RuntimeError: gives up",
        "leaves.py",
        "rank_failed: rank 1 raised RuntimeError",
    ]
    assert sorted(order, key=printed.index) == order
    assert str(out / "report.html") in printed


@dataclass(frozen=True)
class Finished:
    """A run of all stages: its folder and what it printed."""

    out: Path
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Run once for all tests of what follows a good run."""
    folder = tmp_path_factory.mktemp("finished")
    scenario = write_scenario(folder, args=["4"])
    command = [sys.executable, "-m", "prism.coordinator", scenario, "--out", str(folder / "out"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Finished(folder / "out", done.stdout, done.stderr)


def test_json_is_the_result_file(finished: Finished) -> None:
    assert finished.stdout == (finished.out / "result.json").read_text()
    result = Result.load(finished.out / "result.json")
    assert {name: stage.status for name, stage in result.stages.items()} == dict.fromkeys(
        ["capture", "calibrate", "replay"], "ok"
    )
    assert [(rank.exit, rank.iterations) for rank in result.ranks] == [(0, 4), (0, 4)]


def test_progress_is_plain_lines_where_there_is_no_terminal(finished: Finished) -> None:
    told = [line.partition(" (")[0] for line in finished.stderr.splitlines() if not line.startswith(" ")]
    assert told == ["capture ...", "capture ok", "calibrate ...", "calibrate ok", "replay ...", "replay ok"]


# -- going on ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stages", "statuses"),
    [
        ([], {"capture": "reused", "calibrate": "reused", "replay": "ok"}),
        (["--stages", "replay"], {"calibrate": "reused", "replay": "ok"}),
    ],
)
def test_finished_stages_are_used_again(
    stages: list[str], statuses: dict[str, str], finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Result.load(finished.out / "result.json")
    scenario = str(finished.out.parent / "tiny.yaml")
    assert main([scenario, "--out", str(finished.out), "--resume", "-q", *stages]) == 0
    assert capsys.readouterr().err == ""
    after = Result.load(finished.out / "result.json")
    assert {name: stage.status for name, stage in after.stages.items()} == statuses
    after.stages = before.stages
    assert after == before


# -- Ctrl-C --------------------------------------------------------------------------------------------------------


def held_program(folder: Path, stage: str) -> str:
    """A scenario whose hold point lies in the stage; the start-up of the workers counts as one."""
    pipe, ran = folder / "pipe", folder / "ran"
    preload = []
    if stage == "start-up":
        hold = f"import signal\nopen({str(pipe)!r}, 'w').write('here')\nsignal.pause()\n"
        (folder / "slow_import.py").write_text(hold)
        preload = ["slow_import"]
    elif stage == "capture":
        ran.touch()
    return write_scenario(folder, PROGRAMS / "holds.py", args=[str(pipe), str(ran)], preload=preload)


@pytest.mark.parametrize(
    ("stage", "statuses"),
    [
        ("start-up", {"capture": "interrupted"}),
        ("capture", {"capture": "interrupted"}),
        ("calibrate", {"capture": "ok", "calibrate": "interrupted"}),
    ],
)
def test_ctrl_c_ends_everything_and_leaves_a_partial_result(
    stage: str, statuses: dict[str, str], tmp_path: Path, out: Path
) -> None:
    run = HeldRun(tmp_path, held_program(tmp_path, stage))
    try:
        scratch = run.come_to_hold()
        assert scratch.is_dir()
        assert run.interrupt() == 130
        assert run.processes() == []
        assert not scratch.exists()
    finally:
        run.end()
    result = Result.load(out / "result.json")
    assert result.status == "partial"
    assert {name: stage.status for name, stage in result.stages.items()} == statuses


def test_a_terminal_that_is_closed_does_the_same(tmp_path: Path, out: Path) -> None:
    ours, theirs = os.openpty()
    run = HeldRun(tmp_path, held_program(tmp_path, "capture"), terminal=theirs)
    os.close(theirs)
    try:
        run.come_to_hold()
        os.close(ours)
        assert run.ended() == 130
        assert run.processes() == []
    finally:
        run.end()
    assert Result.load(out / "result.json").status == "partial"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_kill_and_a_terminal_that_is_gone_do_the_same(number: signal.Signals, tmp_path: Path, out: Path) -> None:
    run = HeldRun(tmp_path, held_program(tmp_path, "capture"))
    try:
        run.come_to_hold()
        assert run.interrupt(number) == 130
        assert run.processes() == []
    finally:
        run.end()
    assert Result.load(out / "result.json").status == "partial"
