"""A run of the command whose program stops at a hold point, so that a test can do something to it there."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATIENCE_S = 60
"""A run that has not come to its hold point by then is broken."""


class HeldRun:
    """A run of the command, as a terminal would start it, whose program or import stops at a hold point."""

    def __init__(self, folder: Path, scenario: str, terminal: int | None = None) -> None:
        """`terminal`: the end of a pseudo-terminal that is to be the run's."""
        self._mark = uuid.uuid4().hex  # in the environment of all of the run's processes, and of no others
        self.pipe = folder / "pipe"
        os.mkfifo(self.pipe)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "prism.coordinator", scenario, "--out", folder / "out"],
            env=os.environ | {"RUN_OF_A_TEST": self._mark, "PYTHONPATH": str(folder)},
            **(_of_terminal(terminal) if terminal is not None else _of_pipes()),
        )

    def come_to_hold(self) -> Path:
        """Wait for the hold point; returns the run's scratch directory."""
        descriptor = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if not select.select([descriptor], [], [], PATIENCE_S)[0]:
                self._process.kill()
                raise AssertionError(f"the run does not come to its hold point: {self._process.communicate()}")
        finally:
            os.close(descriptor)
        return self._find_scratch()

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> int:
        """Press Ctrl-C, or let a terminal send something else; returns the exit code."""
        os.killpg(self._process.pid, number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end; returns the exit code."""
        self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode

    def kill(self, log: str) -> int:
        """Kill the process that prints into this log, or for "" the command itself; returns the exit code."""
        os.kill(self._process.pid if not log else self._printing(log), signal.SIGKILL)
        return self.ended()

    def processes(self) -> list[int]:
        """Those of the run that are still there."""
        return [int(directory.name) for directory in self._directories()]

    def last_process(self) -> None:
        """Return when the last process of the run has ended."""
        give_up = time.monotonic() + PATIENCE_S
        while self.processes():
            assert time.monotonic() < give_up, f"still there: {self.processes()}"

    def end(self) -> None:
        """Let nothing of the run outlive the test."""
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self._process.communicate()

    def _printing(self, log: str) -> int:
        for directory in self._directories():
            if (directory / "fd" / "1").readlink().name == log:
                return int(directory.name)
        raise AssertionError(f"no process of the run prints into {log}")

    def _find_scratch(self) -> Path:
        for directory in self._directories():
            arguments = (directory / "cmdline").read_bytes().split(b"\0")
            if b"--keys" in arguments:
                return Path(arguments[arguments.index(b"--keys") + 1].decode()).parent
        raise AssertionError("the run has no worker")

    def _directories(self) -> Iterator[Path]:
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                environment = (directory / "environ").read_bytes()  # empty for a zombie
            except OSError:
                continue
            if f"RUN_OF_A_TEST={self._mark}".encode() in environment:
                yield directory


def _of_pipes() -> dict[str, Any]:
    return {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "process_group": 0, "preexec_fn": _hear_of_terminals}


def _of_terminal(end: int) -> dict[str, Any]:
    """How a shell starts a command that has the terminal for itself."""

    def take() -> None:
        _hear_of_terminals()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    return {**dict.fromkeys(("stdin", "stdout", "stderr"), end), "start_new_session": True, "preexec_fn": take}


def _hear_of_terminals() -> None:
    """Whoever runs the tests may have asked not to be told when a terminal goes, as `nohup` does."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
