"""What the host allows: open files, processes, and room in shared memory; told with the fix where it is short."""

from __future__ import annotations

import errno
import resource
import shutil
from pathlib import Path

from prism.exhaustion import FILES

NO_PROCESS = frozenset({errno.EAGAIN, errno.ENOMEM})
"""What the kernel says where there may not be another process."""
SPARE_FILES = 64
"""Open files that a worker has besides the line of each rank."""
SPARE_ROOM = 0.01
"""The part of the shared memory that has to be free for it not to count as full."""


def allow_files() -> str:
    """Let this process open as many files as it may; why that is too few for any run, "" if it is not."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return too_few_files(0)


def too_few_files(ranks: int) -> str:
    """Why a worker cannot have so many ranks, "" if it can."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = ranks + SPARE_FILES
    who = f"{ranks} ranks need" if ranks else "a run without ranks needs"
    return "" if limit >= need else f"{limit} files may be open, {who} {need}; raise it with `ulimit -Hn`"


def no_process(error: OSError) -> str:
    """Why a process could not be forked or started."""
    if error.errno in FILES:
        fix = "raise the number of open files with `ulimit -n`"
    elif error.errno == errno.EAGAIN:
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
