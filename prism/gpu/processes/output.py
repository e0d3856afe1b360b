"""Where what a process prints goes."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def redirect(log: Path) -> None:
    """Standard output and error go to the rank's log, line by line; nothing can be read."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    os.close(null)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="backslashreplace")


def note(text: str) -> None:
    """Put a line of PRISM's own into the rank's log, if that takes one."""
    with contextlib.suppress(OSError, ValueError):
        print(f"prism: {text}", file=sys.stderr, flush=True)


def flush() -> None:
    """Let nothing that was printed be lost."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
