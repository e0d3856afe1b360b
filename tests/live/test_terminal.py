"""The live view as a terminal has it: it moves, and ends clean; what is no terminal gets plain lines."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from live.test_snapshot import begun
from rich.console import Console

from prism.live.snapshot import Watch
from prism.live.terminal import Moving

TMUX = shutil.which("tmux")
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


class Tmux:
    """A terminal of 120 columns in a tmux of its own; what is written to it goes to a file as well."""

    def __init__(self, folder: Path) -> None:
        self._call = [TMUX or "tmux", "-L", f"prism-{os.getpid()}", "-f", "/dev/null"]
        self._raw = folder / "raw"
        self._folder = folder

    def run(self, words: list[str]) -> str:
        """Run a command to its end; what it wrote, control codes included."""
        told = [*self._call, "wait-for", "-S", "done"]
        self.ask("new-session", "-d", "-x", "120", "-y", "30", "-c", str(self._folder), "sh")
        self.ask("pipe-pane", "-o", f"cat > {shlex.quote(str(self._raw))}")
        self.ask("send-keys", f"{shlex.join(words)}; {shlex.join(told)}", "Enter")
        subprocess.run([*self._call, "wait-for", "done"], check=True, timeout=120)
        return self._raw.read_text()

    def ask(self, *words: str) -> str:
        """What tmux says to one of its commands."""
        return subprocess.run([*self._call, *words], check=True, capture_output=True, text=True, timeout=60).stdout

    def seen(self) -> list[str]:
        """The lines on the screen."""
        return [line for line in self.ask("capture-pane", "-p", "-J").splitlines() if line.strip()]


@pytest.fixture
def tmux(run: Path) -> Iterator[Tmux]:
    terminal = Tmux(run)
    yield terminal
    terminal.ask("kill-server")


@pytest.mark.skipif(TMUX is None, reason="no tmux")
def test_on_a_terminal_one_line_moves_and_ends_clean(tmux: Tmux) -> None:
    written = tmux.run(command("--out", "terminal"))
    assert len(set(re.findall(r"running[^;]*; iteration [\d-]+", written))) > 1, "it moves"
    seen = tmux.seen()
    (line,) = (line for line in seen if "✓" in line)
    assert re.fullmatch(r"✓ capture +━+ +\d:\d\d:\d\d *", line)
    assert sum("capture" in line and "━" in line for line in seen) == 1, "nothing of the way is left"
    assert any(line.startswith("sleeps: ok, 4 ranks") for line in seen)
    assert tmux.ask("display-message", "-p", "#{cursor_flag}").strip() == "1", "the cursor is there again"


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
