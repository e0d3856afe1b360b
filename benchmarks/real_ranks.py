"""Real runs of jobs under unmodified NCCL, all ranks on one GPU, each of whose processes is forked with torch in it.

Peaks and losses of such a run are those of as many GPUs; times are not.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

PROGRAM = Path(__file__).parent / "programs" / "fork_ranks.py"


class RealRanks:
    """The process that forks ranks; any number of runs at a time, each from a thread of its own."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, PROGRAM], stdin=pipe, stdout=pipe, text=True)
        self._ids = itertools.count()
        self._waiting: dict[int, SimpleQueue[str]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self, program: Sequence[Any], world: int, logs: Path, limit: float, cap: int = 0) -> str:
        """Run a program on `world` ranks under a cap on memory, in bytes; returns why it failed, "" if it did not."""
        answer: SimpleQueue[str] = SimpleQueue()
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = answer
            told = {"id": number, "program": [str(word) for word in program], "world": world, "logs": str(logs)}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({**told, "limit": limit, "cap": cap}) + "\n")
            self._process.stdin.flush()
        return answer.get()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self._waiting.pop(told["id"]).put(told["failed"])
        for answer in list(self._waiting.values()):
            answer.put("the process that forks ranks has ended")

    def end(self) -> None:
        """No further run."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
