"""A process that the driver's checkpoint takes off the device is at rest meanwhile; over a fake driver."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.checkpoint import Checkpoint, CheckpointError
from benchmarks.parking import Parked, threads

BUSY = """
import mmap, os, sys, threading
file = open(sys.argv[1], "r+b")
memory = mmap.mmap(file.fileno(), 4096)
rests = threading.Event()
driver = threading.Thread(target=rests.wait, daemon=True)
driver.start()
print(driver.native_id, flush=True)
def touch():
    while True:
        memory[0] = (memory[0] + 1) % 256
threading.Thread(target=touch, daemon=True).start()
touch()
"""
"""Two threads that write to memory all the time, and one that waits, as the driver's does."""
LOOKS = 20


class Busy:
    """A process that never rests by itself."""

    def __init__(self, folder: Path) -> None:
        file = folder / "memory"
        file.write_bytes(bytes(4096))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), 4096)
        self._process = subprocess.Popen([sys.executable, "-c", BUSY, file], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.pid, self.driver = self._process.pid, int(self._process.stdout.readline())

    def writes(self) -> bool:
        """Whether it writes to its memory while this looks."""
        seen = {self._memory[0]}
        for _ in range(LOOKS):
            time.sleep(0.005)
            seen.add(self._memory[0])
        return len(seen) > 1

    def states(self) -> dict[int, str]:
        """By thread, what the kernel says it does."""
        texts = {tid: Path(f"/proc/{self.pid}/task/{tid}/stat").read_text() for tid in threads(self.pid)}
        return {tid: text.rpartition(")")[2].split()[0] for tid, text in texts.items()}

    def end(self) -> None:
        """Return once it has gone."""
        with self._process:
            self._process.kill()

    def goes_on(self) -> None:
        """Return once it writes."""
        for _ in range(100):
            if self.writes():
                return
        raise AssertionError("it does not go on")


class FakeDriver:
    """What the checkpoint asks of the driver; `refuses` is a call that fails."""

    def __init__(self, busy: Busy, refuses: str = "") -> None:
        self.said: list[str] = []
        self.wrote = False
        self._busy = busy
        self._refuses = refuses

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> int:
        what = name.removeprefix("cuCheckpointProcess")
        self.said.append(what)
        if what == "GetRestoreThreadId":
            arguments[1]._obj.value = self._busy.driver
        elif what in ("Checkpoint", "Restore"):
            self.wrote |= self._busy.writes()
            assert self._busy.states()[self._busy.driver] == "S", "the driver's own thread is not parked"
        elif what == "cuGetErrorString":
            ctypes.cast(arguments[1], ctypes.POINTER(ctypes.c_char_p))[0] = b"refused"
        return 304 if what == self._refuses else 0


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Busy]:
    """A process that may be traced."""
    started = Busy(tmp_path)
    try:
        try:
            Parked(started.pid, started.driver).let_go()
        except PermissionError:
            pytest.skip("this process may not trace others")
        yield started
    finally:
        started.end()


def test_no_thread_runs_from_the_checkpoint_to_the_end_of_the_restore(busy: Busy) -> None:
    driver = FakeDriver(busy)
    checkpoint = Checkpoint(driver)
    busy.goes_on()
    checkpoint.save(busy.pid)
    assert not busy.writes()
    assert set(busy.states().values()) == {"S", "t"}
    checkpoint.restore(busy.pid)
    assert not driver.wrote
    busy.goes_on()
    assert driver.said == ["cuInit", "Lock", "GetRestoreThreadId", "Checkpoint", "Restore", "Unlock"]


@pytest.mark.parametrize("refused", ["GetRestoreThreadId", "Checkpoint"])
def test_a_process_whose_checkpoint_fails_goes_on(refused: str, busy: Busy) -> None:
    driver = FakeDriver(busy, refused)
    with pytest.raises(CheckpointError, match=r"refused \(304\)"):
        Checkpoint(driver).save(busy.pid)
    assert driver.said[-2:] == ["cuGetErrorString", "Unlock"]
    busy.goes_on()


def test_a_process_whose_restore_fails_is_let_go(busy: Busy) -> None:
    checkpoint = Checkpoint(FakeDriver(busy, "Restore"))
    checkpoint.save(busy.pid)
    with pytest.raises(CheckpointError):
        checkpoint.restore(busy.pid)
    busy.goes_on()


def test_a_process_that_has_ended_has_no_threads_to_park(busy: Busy) -> None:
    busy.end()
    Parked(busy.pid, busy.driver).let_go()
    assert threads(busy.pid) == []


def test_a_parked_process_that_is_killed_ends_once_it_is_let_go(busy: Busy) -> None:
    parked = Parked(busy.pid, busy.driver)
    os.kill(busy.pid, signal.SIGKILL)
    parked.let_go()
    busy.end()
    assert threads(busy.pid) == []
