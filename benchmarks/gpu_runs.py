"""Runs of one job on one GPU: really, under NCCL, and by PRISM; and how many of them share the GPU at a time."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.real_ranks import RealRanks

JOBS = Path(__file__).parents[1] / "tests" / "jobs"
SEGMENTED = Path(__file__).parent / "programs" / "segmented.py"
GIB = 1 << 30
PATIENCE_S = 8.0
"""For a run that was interrupted to end."""
SLOTS = 8
"""Ranks of a capture that run at one time: the jobs make their weights on the CPU, for seconds a rank."""
DEVICE = 128 * GIB
"""What runs may take of the device together."""
TAKES = {"ddp": 8.4, "fsdp2": 6.5, "tp": 5.0, "pp": 5.0, "moe": 5.5, "hf": 11.0}
"""GiB of the device that a rank takes at most, with its context and what NCCL has; others: 12."""


class Run(NamedTuple):
    """What ranks told, by rank: REF lines; and who ran out of memory."""

    reports: dict[int, dict[str, Any]]
    oom: list[int]
    failed: str = ""


class Room:
    """What is left of the device; runs wait for what they take."""

    def __init__(self, size: int = DEVICE) -> None:
        self._left = size
        self._freed = threading.Condition()

    @contextlib.contextmanager
    def taken(self, job: str, world: int) -> Iterator[None]:
        """Inside, the ranks of a job have room."""
        size = min(DEVICE, int(world * TAKES.get(job, 12.0) * GIB))
        with self._freed:
            self._freed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._freed:
                self._left += size
                self._freed.notify_all()


class Runs:
    """Carries runs out in folders of their own below `keep`; each may take `limit` s, and none goes on past `until`."""

    def __init__(self, keep: Path, limit: float) -> None:
        self.keep = keep
        self.limit = limit
        self.until = float("inf")  # by the monotonic clock
        self.room = Room()
        self._real: RealRanks | None = None
        self._lock = threading.Lock()
        self._number = 0

    def real(self, job: str, world: int, iterations: int, cap: int = 0) -> Run:
        """One run under NCCL, all ranks on the one GPU."""
        return self._really([], self.folder(f"real-{job}-{world}"), job, world, iterations, cap)

    def segmented(self, job: str, iterations: int) -> tuple[Run, dict[str, Any]]:
        """One real run of one rank, and what programs/segmented.py tells of it; {} if it did not come so far."""
        logs = self.folder(f"segmented-{job}")
        run = self._really([SEGMENTED, logs / "segments"], logs, job, 1, iterations, 0)
        told = logs / "segments.0.json"
        return run, json.loads(told.read_text()) if told.is_file() else {}

    def _really(self, under: Sequence[Any], logs: Path, job: str, world: int, iterations: int, cap: int) -> Run:
        with self._lock:
            self._real = self._real or RealRanks()
        program = [*under, JOBS / f"job_{job}.py", iterations]
        with self.room.taken(job, world):
            failed = self._real.run(program, world, logs, self._left(), cap)
        return read(logs, world, failed)

    def _left(self) -> float:
        """Seconds that a run may take which begins now."""
        return max(0.0, min(self.limit, self.until - time.monotonic()))

    def captured(self, job: str, world: int, iterations: int, cap: int = 0) -> Run:
        """One capture of the same; `told` is what PRISM says of memory."""
        out = self.folder(f"captured-{job}-{world}")
        capacity = f", memory: {cap}B" if cap else ""
        more = f"devices: {{kind: cuda, slots: {SLOTS}{capacity}}}\ncapture: {{payloads: control}}\n"
        scenario(out, JOBS / f"job_{job}.py", [iterations], world, more)
        with self.room.taken(job, world):
            failed = self.prism(out, "capture")
        run = read(out / "run" / "ranks", world, failed)
        for rank in result(out).get("ranks", []):  # what is measured from outside has to be what the rank sees
            report = run.reports.get(rank["rank"])
            if report is not None:
                report["told"] = [rank["peak_bytes"], rank["reserved_bytes"]]
        return run

    def prism(self, out: Path, stages: str) -> str:
        """Run these stages of the scenario in a folder; returns why they failed."""
        command = [sys.executable, "-m", "prism.coordinator", out / "scenario.yaml", "--out", out / "run", "-q"]
        return run([*command, "--stages", stages, "--resume"], self._left())

    def folder(self, name: str) -> Path:
        """A new one."""
        with self._lock:
            self._number += 1
            made = self.keep / f"{self._number:03d}-{name}"
        made.mkdir(parents=True)
        return made

    def end(self) -> None:
        """No further run."""
        if self._real is not None:
            self._real.end()


def scenario(out: Path, program: Path, arguments: Sequence[Any], world: int, more: str) -> None:
    """Write a scenario into a folder."""
    words = ", ".join(f"'{word}'" for word in arguments)
    head = f"prism: 1\nname: {program.stem}\nprogram: {{script: {program}, args: [{words}]}}\n"
    (out / "scenario.yaml").write_text(f"{head}world: {{size: {world}}}\n{more}")


def result(out: Path) -> dict[str, Any]:
    """What a run by PRISM found; {} if it did not come so far."""
    file = out / "run" / "result.json"
    return json.loads(file.read_text()) if file.is_file() else {}


def run(command: Sequence[Any], limit: float) -> str:
    """Why a command failed; "" if it did not. One that takes too long is interrupted, and tells what it knows."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            told, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            told = ""
            try:
                told, _ = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
            return f"took more than {limit:.0f} s; {told[-1500:]}".removesuffix("; ")
    return "" if process.returncode == 0 else f"exit {process.returncode}: {told[-1500:]}"


def read(logs: Path, world: int, failed: str) -> Run:
    """What ranks printed into <rank>.log."""
    reports, oom = {}, []
    for rank in range(world):
        log = logs / f"{rank}.log"
        text = log.read_text() if log.is_file() else ""
        lines = [line for line in text.splitlines() if line.startswith("REF ")]
        if lines:
            reports[rank] = json.loads(lines[-1].removeprefix("REF "))
        if "OutOfMemoryError" in text:
            oom.append(rank)
    return Run(reports, oom, failed)
