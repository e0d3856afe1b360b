"""Threads of another process, parked: stopped wherever they are, by ptrace, until they are let go.

A thread may be in any state but ended when it is parked, and notices nothing. If this process ends, they go on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17  # requests of ptrace(2)
EVENT_STOP = 128
ANY_THREAD = 0x40000000  # __WALL of waitpid(2)


class Parked:
    """All threads of a process but one, which goes on; whoever parks them has to let them go, from the same thread.

    Raises PermissionError where this process may not trace the other.
    """

    def __init__(self, pid: int, but: int) -> None:
        self._pid = pid
        self._signals: dict[int, int] = {}  # by thread: what it was about to be sent, or 0
        try:
            while fresh := set(threads(pid)) - {but} - set(self._signals):  # a thread may start others until it stops
                for thread in sorted(fresh):
                    self._signals[thread] = _stop(thread)
        except BaseException:
            self.let_go()
            raise

    def let_go(self) -> None:
        """Let them go on where they were; of a process that was killed, let them end."""
        for thread in sorted(self._signals, key=lambda thread: thread == self._pid):  # it ends when the others have
            try:
                _ptrace(DETACH, thread, self._signals[thread])
            except ProcessLookupError:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(thread, ANY_THREAD)
        self._signals.clear()


def threads(pid: int) -> list[int]:
    """The threads that a process has now."""
    with contextlib.suppress(OSError):
        return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    return []


def _stop(thread: int) -> int:
    """Stop a thread; returns the signal that it was about to be sent, 0 for none or if it has ended."""
    try:
        _ptrace(SEIZE, thread)
        _ptrace(INTERRUPT, thread)
        _, status = os.waitpid(thread, ANY_THREAD)
    except (ProcessLookupError, ChildProcessError):
        return 0
    if not os.WIFSTOPPED(status) or status >> 16 == EVENT_STOP:
        return 0
    return os.WSTOPSIG(status) if os.WSTOPSIG(status) != signal.SIGTRAP else 0


def _ptrace(request: int, thread: int, data: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, None, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
