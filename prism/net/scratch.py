"""The private directory in memory that the processes of a run share: made by its crew, gone with it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_NAME = re.compile(r"prism-(\d+)-\w+")  # the process that made it


def make_scratch() -> Path:
    """A fresh one, mode 0700; what runs that were killed have left is taken away first."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    for leftover in parent.glob("prism-*"):
        owner = _NAME.fullmatch(leftover.name)
        with contextlib.suppress(FileNotFoundError):  # another run may be sweeping too
            if owner is not None and not Path("/proc", owner[1]).exists() and leftover.stat().st_uid == os.geteuid():
                remove_scratch(leftover)
    return Path(tempfile.mkdtemp(prefix=f"prism-{os.getpid()}-", dir=parent))


def remove_scratch(path: Path) -> None:
    """Take it away; a directory of another name is nobody's scratch, and stays."""
    if _NAME.fullmatch(path.name):
        shutil.rmtree(path, ignore_errors=True)
