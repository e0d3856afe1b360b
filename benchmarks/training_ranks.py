"""Training processes that do what they are told, whose memory can be moved; see programs/gpu_switch_rank.py."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prism.gpu.cuda.pool_file import NAME
from prism.gpu.cuda.residency_abi import SLOT

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "benchmarks" / "programs" / "gpu_switch_rank.py"
GIB = 1 << 30
POOL = 16 * GIB
Found = dict[str, Any]


class Rank:
    """A training process that is told what to do; with a library, its memory can be moved."""

    def __init__(self, folder: Path, library: Path | None, layers: int = 8) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "LAYERS": str(layers)}
        if library:
            environment |= {"LD_PRELOAD": str(library), "POOL": str(folder / NAME), "SLOTS": str(POOL // SLOT)}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, PROGRAM], stdin=pipe, stdout=pipe, text=True, env=environment)
        self.pid = self._process.pid

    def answer(self) -> Found:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = json.loads(line) if line else {"error": f"the process ended: {self._process.wait()}"}
        if "error" in found:
            raise RuntimeError(found["error"])
        return dict(found)

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def do(self, command: str) -> Found:
        self.tell(command)
        return self.answer()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def ranks(folder: Path, *libraries: Path | None, layers: int = 8) -> Iterator[list[Rank]]:
    """Training processes, begun all at once, after two steps each."""
    started = [Rank(folder, library, layers) for library in libraries]
    try:
        for rank in started:
            rank.tell("train 2")
        for rank in started:
            rank.answer()  # it is born
            rank.answer()
        yield started
    finally:
        for rank in started:
            rank.end()
