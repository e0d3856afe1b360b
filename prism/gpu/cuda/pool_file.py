"""The file of the host pool, in huge pages where this process may mount: pinned in a tenth of the time.

It lies in a file system of its own, which is mounted nowhere, and gone with the last process that has the file.
Source: fsopen(2), fsconfig(2), fsmount(2); tmpfs(5) for `huge`.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NAME = "device-pages"
"""In the directory that the ranks of a stage share in memory."""
FSOPEN, FSCONFIG, FSMOUNT = 430, 431, 432  # the same on all machines
CLOSE_ON_EXEC, SET_STRING, CREATE = 1, 1, 6
NO_SUID_NO_DEVICES = 6
UNBOUNDED = b"0"  # the pool has its own bound


class PoolFile:
    """The file at `path`, from which it is gone when this is closed; ranks that have it keep it.

    Where nothing can be mounted there is none, and ranks make a plain one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._descriptor = _in_huge_pages()
        except OSError:
            self._descriptor = -1
            return
        path.symlink_to(f"/proc/{os.getpid()}/fd/{self._descriptor}")

    @property
    def huge(self) -> bool:
        """Whether it is in huge pages."""
        return self._descriptor >= 0

    def close(self) -> None:
        """Nobody opens it any more."""
        if self.huge:
            os.close(self._descriptor)
            self._descriptor = -1
            self._path.unlink(missing_ok=True)


def _in_huge_pages() -> int:
    """The descriptor of an empty file in memory whose mappings may ask for huge pages; raises OSError."""
    system = _call(FSOPEN, b"tmpfs", CLOSE_ON_EXEC)
    try:
        for key, value in ((b"huge", b"advise"), (b"size", UNBOUNDED)):
            _call(FSCONFIG, system, SET_STRING, key, value, 0)
        _call(FSCONFIG, system, CREATE, None, None, 0)
        root = _call(FSMOUNT, system, CLOSE_ON_EXEC, NO_SUID_NO_DEVICES)
    finally:
        os.close(system)
    try:
        return os.open(NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=root)
    finally:
        os.close(root)


def _call(number: int, *arguments: int | bytes | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    wide = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    result = int(libc.syscall(ctypes.c_long(number), *wide))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
