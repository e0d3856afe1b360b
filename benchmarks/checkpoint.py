"""The driver's checkpoint of another process: all that it has on the device goes to its host memory, contexts too.

For when contexts rather than tensors fill the device. Seconds where paging takes a tenth of one, so pages go out first.
Source: the process checkpointing section of the CUDA driver API (12.8 and later).
"""

from __future__ import annotations

import ctypes

LOCK_MS = 10_000
"""How long the process may take to come to rest; it is blocked when it is asked."""


class CheckpointError(RuntimeError):
    """The driver refused."""


class Checkpoint:
    """The driver, as a process uses it that has no context of its own."""

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CheckpointError(f"no CUDA driver: {error}") from None
        if not hasattr(self._cuda, "cuCheckpointProcessLock"):
            raise CheckpointError("the CUDA driver has no process checkpoint; 570 or later has")
        self._check(self._cuda.cuInit(0), "cuInit")

    def save(self, pid: int) -> None:
        """Move what the process has on the device to its host memory; it stops at its next call of CUDA."""
        arguments = (ctypes.c_uint64 * 8)(LOCK_MS)  # the lock's timeout is the first; all else is reserved, and 0
        self._check(self._cuda.cuCheckpointProcessLock(pid, arguments), "lock")
        self._check(self._cuda.cuCheckpointProcessCheckpoint(pid, None), "checkpoint")

    def restore(self, pid: int) -> None:
        """Move it back, and let the process go on."""
        self._check(self._cuda.cuCheckpointProcessRestore(pid, None), "restore")
        self._check(self._cuda.cuCheckpointProcessUnlock(pid, None), "unlock")

    def _check(self, result: int, what: str) -> None:
        if result:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(result, ctypes.byref(text))
            reason = (text.value or b"error").decode()
            raise CheckpointError(f"{what} of a process failed: {reason} ({result})")
