"""The driver's checkpoint of another process: all that it has on the device goes to its host memory, contexts too.

For when contexts rather than tensors fill the device. Seconds where paging takes a tenth of one, so pages go out first.

While it is away a process is at rest, and here is what that means. `lock`: what it has on the device has ended, and its
next call of CUDA waits. Parked: all its threads but the driver's own, which takes mappings away and puts them back, are
stopped wherever they are, until it is back; one that read or wrote there meanwhile would die by SIGSEGV. So it need not
know, and may be in the middle of anything. CRIU does the same. Source: the process checkpointing section of the CUDA
driver API (12.8 and later).
"""

from __future__ import annotations

import ctypes
from typing import Any

from benchmarks.parking import Parked

LOCK_MS = 10_000
"""How long what the process has on the device, and its calls of CUDA, may take to end."""


class CheckpointError(RuntimeError):
    """The driver, or the kernel, refused."""


class Checkpoint:
    """The driver, as a process uses it that has no context of its own; one thread saves and restores."""

    def __init__(self, cuda: Any = None) -> None:
        try:
            self._cuda = cuda or ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CheckpointError(f"no CUDA driver: {error}") from None
        if not hasattr(self._cuda, "cuCheckpointProcessLock"):
            raise CheckpointError("the CUDA driver has no process checkpoint; 570 or later has")
        self._parked: dict[int, Parked] = {}
        self._check(self._cuda.cuInit(0), "cuInit")

    def save(self, pid: int) -> None:
        """Bring the process to rest, and move what it has on the device to its host memory."""
        arguments = (ctypes.c_uint64 * 8)(LOCK_MS)  # the lock's timeout is the first; all else is reserved, and 0
        self._check(self._cuda.cuCheckpointProcessLock(pid, arguments), "lock")
        try:
            self._parked[pid] = Parked(pid, self._restorer(pid))
            self._check(self._cuda.cuCheckpointProcessCheckpoint(pid, None), "checkpoint")
        except (CheckpointError, OSError) as error:
            self._cuda.cuCheckpointProcessUnlock(pid, None)
            self._let_go(pid)
            raise CheckpointError(str(error)) from error

    def restore(self, pid: int) -> None:
        """Move it back, and let the process go on."""
        try:
            self._check(self._cuda.cuCheckpointProcessRestore(pid, None), "restore")
            self._check(self._cuda.cuCheckpointProcessUnlock(pid, None), "unlock")
        finally:
            self._let_go(pid)

    def _restorer(self, pid: int) -> int:
        """The driver's own thread in the process."""
        thread = ctypes.c_int()
        self._check(self._cuda.cuCheckpointProcessGetRestoreThreadId(pid, ctypes.byref(thread)), "restore thread")
        return thread.value

    def _let_go(self, pid: int) -> None:
        if pid in self._parked:
            self._parked.pop(pid).let_go()

    def _check(self, result: int, what: str) -> None:
        if result:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(result, ctypes.byref(text))
            reason = (text.value or b"error").decode()
            raise CheckpointError(f"{what} of a process failed: {reason} ({result})")
