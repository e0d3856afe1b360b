"""The live view as a terminal has it: it moves, and ends clean; what is no terminal gets plain lines."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from live.test_snapshot import begun
from rich.console import Console

from prism.live.snapshot import Watch
from prism.live.terminal import Moving

SLEEPS = Path(__file__).parent.parent / "programs" / "sleeps.py"
CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


def screen(written: str) -> list[str]:
    """The lines that are seen in the end: cursor up, erased lines, carriage returns; colours do not matter."""
    lines, at = [""], 0
    for number, act, move, text in CONTROL.findall(written):
        if act == "A":
            at = max(0, at - int(number or 1))
        elif act == "K":
            lines[at] = ""
        elif move == "\n":
            at += 1
            lines += [""] * (at + 1 - len(lines))
        elif move == "\r":
            continue  # what is written over it is as long, or was erased
        elif text:
            lines[at] += text
    return [line.rstrip() for line in lines if line.strip()]


class Terminal:
    """A pseudo-terminal of 120 columns: `file` writes to it, `close` says what was written."""

    def __init__(self) -> None:
        ours, theirs = pty.openpty()
        self.file = os.fdopen(theirs, "w")
        self._read = b""
        self._reader = threading.Thread(target=self._gather, args=(ours,), daemon=True)
        self._reader.start()

    def close(self) -> str:
        self.file.close()
        self._reader.join()
        return self._read.decode()

    def _gather(self, ours: int) -> None:
        try:
            while part := os.read(ours, 4096):
                self._read += part
        except OSError:  # nobody holds the other end any more
            pass
        os.close(ours)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live")
    program = f"program: {{script: {SLEEPS}, args: ['150']}}\nworld: {{size: 4}}\n"
    (folder / "sleeps.yaml").write_text(f"prism: 1\nname: sleeps\n{program}stages: [capture]\n")
    return folder


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "prism.coordinator", "sleeps.yaml", *flags]


def test_on_a_terminal_one_line_moves_and_ends_clean(run: Path) -> None:
    terminal = Terminal()
    set_to = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    ended = subprocess.run(
        command(), cwd=run, env=set_to, stdout=subprocess.PIPE, stderr=terminal.file, check=True, timeout=120
    )
    written = terminal.close()
    assert len(set(re.findall(r"running[^;]*; iteration [\d-]+", written))) > 1, "it moves"
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") > 0, "the cursor is there again"
    (line,) = screen(written)
    assert re.fullmatch(r"✓ capture +━+ +\d:\d\d:\d\d", line)
    assert b"\x1b" not in ended.stdout
    assert b"sleeps: ok, 4 ranks" in ended.stdout


def test_what_is_piped_has_no_control_codes(run: Path) -> None:
    ended = subprocess.run(
        command("--out", "piped", "--set", "program.args=[1]"), cwd=run, capture_output=True, check=True, timeout=120
    )
    assert not set(ended.stdout + ended.stderr) & (set(range(32)) - {ord("\n")})
    assert ended.stderr.decode().splitlines()[0] == "capture ..."
    assert re.fullmatch(r"capture ok \(\d+\.\d s\)", ended.stderr.decode().splitlines()[-1])


def test_each_stage_has_its_line_once() -> None:
    terminal = Terminal()
    moving = Moving(Console(file=terminal.file, force_terminal=True, width=120), Watch())
    for stage, status in (("capture", "ok"), ("calibrate", "ok"), ("replay", "interrupted")):
        moving.begin(stage)
        moving.watch(begun())
        moving.say(f"{stage} says")
        moving.end(stage, status, 1.0)
    seen = screen(terminal.close())
    assert [line.split()[:2] for line in seen[:4]] == [
        ["capture", "says"], ["✓", "capture"], ["calibrate", "says"], ["✓", "calibrate"],
    ]  # fmt: skip
    assert seen[4] == "replay says"
    assert re.search(r"replay .*interrupted", seen[5])
    assert len(seen) == 6
