"""Where a worker's ranks read and write in a stage, on its own host; what they print elsewhere gets to the coordinator.

The output folder may be one that all hosts share, or one of the same path on each. A file that the coordinator has put
into the folder of the logs shows which.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from prism.errors import RunError
from prism.exhaustion import room_in
from prism.gpu.cuda.pool_file import NAME, PoolFile
from prism.net.messages import Printed, Setup
from prism.net.payloads import CHUNK

MOST = 64 << 20
"""Bytes of one log that are sent; the rest stays on its host."""


class StageFiles:
    """The files of one worker; `directory` is private to it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._logs = Path()
        self._apart = False  # whether the coordinator has another folder of this name
        self._begun = 0.0
        self._pool: PoolFile | None = None  # for device memory that leaves

    def lay_out(self, setup: Setup) -> Setup:
        """Make room for a stage: the inputs of the one before are spent. Raises RunError."""
        inputs, payloads, self._logs = self._directory / "inputs", Path(setup.payloads), Path(setup.logs)
        self._begun = time.time()
        self._apart = bool(setup.marker) and not (self._logs / setup.marker).exists()
        if self._pool is not None:
            self._pool.close()
        shutil.rmtree(inputs, ignore_errors=True)
        with room_in(self._directory):
            inputs.mkdir(mode=0o700)
        self._pool = PoolFile(inputs / NAME) if setup.device == "cuda" else None
        _make(payloads, self._logs)
        if setup.marker:
            with contextlib.suppress(OSError):  # paths of the program may be relative to it
                os.chdir(setup.folder)
        return msgspec.structs.replace(setup, scratch=str(inputs))

    def printed(self, ranks: Iterable[int]) -> Iterator[Printed]:
        """What ranks have written in this stage, where the coordinator cannot read it; assistants are below 0."""
        names = (f"{rank}.*" if rank >= 0 else f"assistant-{-1 - rank}.log" for rank in ranks if self._apart)
        for path in (path for name in names for path in sorted(self._logs.glob(name))):
            if path.stat().st_mtime < self._begun - 1:
                continue  # of another stage
            with path.open("rb") as file:
                size = min(os.fstat(file.fileno()).st_size, MOST)
                for at in range(0, max(size, 1), CHUNK):  # a rank that prints nothing has a log, too
                    yield Printed(file=path.name, at=at, data=file.read(CHUNK))


def _make(*folders: Path) -> None:
    try:
        with room_in(folders[0]):
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        told = f"{error.filename or folders[0]} cannot be made on {socket.gethostname()}: {error.strerror}"
        fix = "the output folder has one path on all hosts, name one that can be made (--out)"
        raise RunError(f"{told}; {fix}") from error


def missing(setup: Setup) -> str:
    """What of the program is not on this host, "" if all is."""
    script = setup.program.script
    if not script or Path(script).is_file():
        return ""
    return f"{script} is not on {socket.gethostname()}; the program has to lie at one path on all hosts"
