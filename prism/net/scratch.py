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


def lies_in_memory(path: Path) -> bool:
    """Whether a directory is on a file system that keeps its files in memory."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    kinds = {unescaped(place): kind for place, kind in mounts}  # of several on one place, the last is on top
    mount = next(place for place in (path, *path.parents) if str(place) in kinds)
    return kinds[str(mount)] in ("tmpfs", "ramfs")


def unescaped(place: str) -> str:
    """A path as it stands in a table of mounts, with its spaces back."""
    return re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), place)


def remove_scratch(path: Path) -> None:
    """Take it away; a directory of another name is nobody's scratch, and stays."""
    if _NAME.fullmatch(path.name):
        shutil.rmtree(path, ignore_errors=True)


def is_orphaned(path: Path) -> bool:
    """Whether it is a scratch that this process's parent, as it is now, has not made."""
    owner = _NAME.fullmatch(path.name)
    return owner is not None and int(owner[1]) != os.getppid()


def remove_orphaned(path: Path) -> None:
    """Take it away, unless who made it is there and will do so itself."""
    if is_orphaned(path):
        remove_scratch(path)
