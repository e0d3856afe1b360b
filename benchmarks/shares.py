"""How much of a core processes use while something runs; they are told by the log that is their standard output."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from types import TracebackType

PERIOD_S = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


class Shares:
    """CPU time over wall time of the processes that write to logs of these names, from when they are first seen."""

    def __init__(self, logs: list[Path]) -> None:
        self._logs = {str(log.resolve()) for log in logs}
        self._first: dict[int, tuple[float, float]] = {}
        self._last: dict[int, tuple[float, float]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Shares:
        self._thread.start()
        return self

    def __exit__(self, *exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def mean(self) -> float:
        """The mean share of the processes."""
        shares = []
        for process, (began, before) in self._first.items():
            ended, after = self._last[process]
            shares.append((after - before) / max(ended - began, PERIOD_S))
        return sum(shares) / max(len(shares), 1)

    def _watch(self) -> None:
        while not self._over.wait(PERIOD_S):
            for entry in Path("/proc").iterdir():
                with contextlib.suppress(OSError):
                    if entry.name.isdigit() and os.readlink(entry / "fd" / "1") in self._logs:
                        self._note(int(entry.name))

    def _note(self, process: int) -> None:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        seen = time.monotonic(), (int(fields[11]) + int(fields[12])) / TICKS
        self._first.setdefault(process, seen)
        self._last[process] = seen
