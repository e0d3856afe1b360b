"""What runs out in the world around a run: room on a disk or in shared memory, and open files; told with the fix."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prism.errors import RunError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
FILES = frozenset({errno.EMFILE, errno.ENFILE})


class Exhausted(RunError):
    """There is no room, or no file may be opened; the text says where, how much, and what to do."""


@contextmanager
def room_in(folder: Path, nbytes: int = 0) -> Iterator[None]:
    """Raise Exhausted in place of an OSError that says that `folder` is full or that too many files are open.

    nbytes: how many were to be written; 0 if that is not known.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL | FILES:
            raise
        raise Exhausted(_told(error, folder, nbytes)) from error


def _told(error: OSError, folder: Path, nbytes: int) -> str:
    what = error.strerror or type(error).__name__
    if error.errno in FILES:
        limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{folder}: {what}; the limit is {limit} ({most} at most), raise it with `ulimit -n`"
    needed = f"{nbytes} bytes are needed, " if nbytes else ""
    return f"{folder}: {what}: {needed}{_free(folder)} bytes are free; {_fix(error, folder)}"


def _fix(error: OSError, folder: Path) -> str:
    if error.errno == errno.EFBIG:
        return "raise how large a file may be with `ulimit -f`"
    if folder.is_relative_to("/dev/shm"):
        return "make room there"
    return "make room there, or name another folder (--out)"


def _free(folder: Path) -> int:
    while not os.path.exists(folder):
        folder = folder.parent
    return shutil.disk_usage(folder).free
