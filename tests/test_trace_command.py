"""Trace files and `python -m prism.trace`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prism import __version__, trace
from prism.errors import ScenarioError
from tests.core.jobs import two_dimensional

SUMMARY = f"""\
tool        prism {__version__}
scenario    c0ffee
world       4 ranks
lanes       4
clock       ns (calibrated)
iterations  2 a rank
nodes       104
  compute                24
  post                   40
  wait                   32
  mark                    8
  record                  0
  wait_event              0
ops         20
  all_reduce              8 of 1048576 bytes
  reduce_scatter          8 of 8388608 bytes
  all_gather              4 of 4194304 bytes
groups      5
  world                   0 ops on 4 ranks, gloo
  tp0                     4 ops on 2 ranks, gloo
  tp1                     4 ops on 2 ranks, gloo
  dp0                     6 ops on 2 ranks, gloo
  dp1                     6 ops on 2 ranks, gloo
"""

KILLED = """
import os, signal, sys
from pathlib import Path
from prism import trace

given, whole = trace.read(Path(sys.argv[1])).graph, trace.encode

def killed(written):
    *pieces, end = whole(written)
    yield from pieces
    os.kill(os.getpid(), signal.SIGKILL)

trace.encode = killed
trace.write(Path(sys.argv[2]), given)
"""
"""A writer that dies before the last chunk."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "graph.prism"
    trace.write(path, two_dimensional(2, 2, iterations=2), scenario="c0ffee")
    return path


def test_what_was_written_is_read(path: Path) -> None:
    found = trace.read(path)
    assert (found.tool, found.scenario, found.graph.world_size) == (__version__, "c0ffee", 4)


def test_writing_replaces_the_file_and_leaves_nothing_else(path: Path) -> None:
    trace.write(path, two_dimensional(1, 2))
    assert trace.read(path).graph.world_size == 2
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> object:
        yield b"half"
        raise OSError("disk full")

    before = path.read_bytes()
    monkeypatch.setattr(trace, "encode", broken)
    with pytest.raises(OSError, match="disk full"):
        trace.write(path, two_dimensional(1, 2))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("exists", [True, False])
def test_a_writer_that_is_killed_leaves_the_old_file_or_none(path: Path, exists: bool) -> None:
    before, other = path.read_bytes(), path.with_name("other.prism")
    trace.write(other, two_dimensional(8, 8))
    if not exists:
        path.unlink()
    done = subprocess.run([sys.executable, "-c", KILLED, other, path], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, b"")
    assert path.exists() == exists
    assert not exists or path.read_bytes() == before
    part = path.with_name("graph.prism.part")
    with pytest.raises(ScenarioError, match=r"graph.prism.part: byte \d+, section [a-z_.]+: the file is cut off"):
        trace.read(part)
    trace.write(path, two_dimensional(1, 2))  # and the next writer clears up after it
    assert not part.exists()


def test_the_summary(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trace.main([str(path)]) == 0
    assert capsys.readouterr().out == SUMMARY


@pytest.mark.parametrize("damage", ["truncated", "missing", "other"])
def test_a_bad_file_is_one_line_and_exit_2(path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = path.read_bytes()
    words = {"truncated": "cut off", "missing": "No such file or directory", "other": "byte 0, section magic"}
    path.unlink()
    if damage != "missing":
        path.write_bytes(data[:-1] if damage == "truncated" else b"PK" + data)
    assert trace.main([str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"{path}: ")
    assert words[damage] in err


def test_reading_a_bad_file_blames_the_user(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(ScenarioError, match="not a PrismTrace file"):
        trace.read(path)


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--what"]])
def test_wrong_usage_is_one_line_and_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert trace.main(arguments) == 2
    assert capsys.readouterr() == ("", f"{trace.USAGE}\n")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace.main(["--help"]) == 0
    assert capsys.readouterr() == (f"{trace.USAGE}\n", "")


def test_the_module_runs_as_a_command(path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "prism.trace", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, SUMMARY, "")
