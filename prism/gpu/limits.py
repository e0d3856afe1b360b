"""What the host allows: open files, processes, and room in shared memory; told with the fix where it is short."""

from __future__ import annotations

import errno
import resource
import shutil
from pathlib import Path

SPARE_FILES = 64
"""Open files that a worker has besides the line of each rank."""
SPARE_ROOM = 0.01
"""The part of the shared memory that has to be free for it not to count as full."""


def too_few_files(ranks: int) -> str:
    """Why a worker cannot have so many ranks, "" if it can."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = ranks + SPARE_FILES
    return "" if limit >= need else f"{limit} files may be open, {ranks} ranks need {need}; raise it with `ulimit -Hn`"


def no_process(error: OSError) -> str:
    """Why a process could not be forked."""
    if error.errno == errno.EAGAIN:
        fix = "raise the number of processes (`ulimit -u`, or that of the container), or run fewer ranks"
    else:
        fix = "make room in memory (devices.host_memory and devices.spill bound what ranks take), or run fewer ranks"
    return f"{error.strerror}; {fix}"


def full(directory: Path) -> str:
    """That the memory which a directory lies in has run out, "" if it has not."""
    usage = shutil.disk_usage(directory)
    if usage.free > SPARE_ROOM * usage.total:
        return ""
    return f"{directory}: {usage.free} of {usage.total} bytes of shared memory are free; make room there"
