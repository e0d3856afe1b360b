"""The private directory in memory that the processes of a run share: made by its crew, gone with it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_EXITING = 0x4  # PF_EXITING among the flags of a task (proc(5), sched.h of Linux)
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
    """Whether it is a scratch that this process's parent, as it is now, has not made, or does not live to take away."""
    owner = _NAME.fullmatch(path.name)
    return owner is not None and (int(owner[1]) != os.getppid() or _is_dying(int(owner[1])))


def _is_dying(pid: int) -> bool:
    """Whether it has been killed or leaves: until its last thread has gone it stays the parent of its children."""
    try:
        state, flags = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[at] for at in (0, 6))
        pending = re.search(r"^SigPnd:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return True
    killed = pending is not None and int(pending[1], 16) & 1 << signal.SIGKILL - 1
    return bool(state in "ZX" or int(flags) & _EXITING or killed)


def remove_orphaned(path: Path) -> None:
    """Take it away, unless who made it is there and will do so itself."""
    if is_orphaned(path):
        remove_scratch(path)
