"""What the kernel knows of a rank's process, and what it is asked to do with it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

WAITING_CALLS = frozenset({202, 7, 271, 45, 47, 23, 270, 232, 281, 0})
"""x86-64 system calls in which a thread waits for others: futex, (p)poll, recv*, (p)select, epoll_*wait, read."""


def is_waiting(pid: int) -> bool:
    """Whether the main thread of the process sleeps in a call that waits for others."""
    try:
        number = Path(f"/proc/{pid}/task/{pid}/syscall").read_text().split()[0]
    except OSError:
        return False
    return number.isdigit() and int(number) in WAITING_CALLS


def is_running(pid: int) -> bool:
    """Whether the process is there and not stopped."""
    return _state(pid) not in ("", "T", "t", "Z", "X")


def is_stopped(pid: int) -> bool:
    """Whether the process is there and stopped, by a signal or a debugger."""
    return _state(pid) in ("T", "t")


def is_starved(pid: int) -> bool:
    """Whether the process could go on as soon as it gets a CPU."""
    return _state(pid) == "R"


def stop(pid: int) -> None:
    """Stop the process where it is; it has stopped once it is not running."""
    _send(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    """Let the stopped process go on."""
    _send(pid, signal.SIGCONT)


def kill_all(pid: int) -> None:
    """End the process and all that it has started, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def kill(pid: int) -> None:
    """End the process at once, but nothing that it has started."""
    _send(pid, signal.SIGKILL)


def _state(pid: int) -> str:
    """The kernel's letter for what the process does; "" if it is not there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
