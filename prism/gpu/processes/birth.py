"""What a worker and its fork server say to each other, and a rank's first word to its worker.

Apart from both, so that the worker need not import torch to talk to those who have.
"""

from __future__ import annotations

import ctypes
import signal
import threading

import msgspec

from prism.core.events import Event
from prism.net.messages import Setup

PR_SET_PDEATHSIG = 1


class Birth(msgspec.Struct, frozen=True):
    """Worker: fork this rank."""

    rank: int
    stage: str
    socket: str
    setup: Setup


class Ready(msgspec.Struct, tag=True, frozen=True):
    """Fork server: everything is imported."""


class Failed(msgspec.Struct, tag=True, frozen=True):
    """Fork server: a module of the scenario's preload cannot be imported."""

    reason: str
    traceback: str


class Born(msgspec.Struct, tag=True, frozen=True):
    """Fork server: the rank's process exists."""

    rank: int
    pid: int


class Unborn(msgspec.Struct, tag=True, frozen=True):
    """Fork server: the rank's process could not be made, and why."""

    rank: int
    reason: str


class Gone(msgspec.Struct, tag=True, frozen=True):
    """Fork server: the rank's process has ended, with its exit code, or minus the signal."""

    rank: int
    code: int


FromZygote = Ready | Failed | Born | Unborn | Gone


class Introduction(Event, frozen=True):
    """Rank: the first frame on my line, which says whose line it is."""

    pid: int


def die_with_parent(number: signal.Signals) -> None:
    """Let the kernel send this process `number` when its parent ends, however that ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)


def go_on_without_parent() -> None:
    """Let the kernel also wake this process then, where it has been stopped: no other signal is handled before that.

    A thread has one such signal, but each of a process has its own, so a thread that does nothing has this one.
    """
    asked = threading.Event()

    def wait() -> None:
        die_with_parent(signal.SIGCONT)
        asked.set()
        threading.Event().wait()

    threading.Thread(target=wait, name="prism-go-on", daemon=True).start()
    asked.wait()
