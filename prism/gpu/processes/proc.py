"""What the kernel knows of a rank's process, and what it is asked to do with it."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
from pathlib import Path

WAITING = {
    "x86_64": frozenset({202, 449, 7, 271, 45, 47, 299, 23, 270, 232, 281, 441, 0}),
    "aarch64": frozenset({98, 449, 73, 207, 212, 243, 72, 22, 441, 63}),
}
"""System calls, by their numbers on a machine, in which a thread waits for others: futex(_waitv), (p)poll, recv*,
(p)select, epoll_*wait*, read."""
WAITING_CALLS = WAITING.get(platform.machine(), frozenset())


def unknown_machine() -> str:
    """Why nobody can tell on this machine whether a rank waits, "" if it can be told."""
    if WAITING_CALLS:
        return ""
    return f"the system calls of {platform.machine()} are not known; ranks run on {' and '.join(WAITING)}"


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
    """Whether the process is there and stopped by a signal; one that a debugger holds is not."""
    return _state(pid) == "T"


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
