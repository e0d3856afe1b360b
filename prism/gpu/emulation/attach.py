"""Waiting for a debugger: debugpy where it is installed, pdb over a socket where it is not."""

from __future__ import annotations

import importlib
import pdb
import socket
import sys
from collections.abc import Callable
from types import FrameType

HOST = "127.0.0.1"


def offer_debugger(rank: int) -> tuple[str, Callable[[], None]]:
    """How to reach a debugger of this process, and what waits until somebody has."""
    try:
        debugpy = importlib.import_module("debugpy")
    except ImportError:
        listener = socket.create_server((HOST, 0))
        port = listener.getsockname()[1]
        told = f"rank {rank} waits for a debugger: nc {HOST} {port} (pdb; `c` goes on)"
        return told, lambda: _serve_pdb(listener)
    _, port = debugpy.listen((HOST, 0))
    told = f"rank {rank} waits for a debugger: attach a client of debugpy to {HOST}:{port}"
    return told, lambda: debugpy.wait_for_client()


class _ProgramDebugger(pdb.Pdb):
    """Stops for the first time in the program itself: what starts it is ours."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(stdin=connection.makefile("r"), stdout=connection.makefile("w"), nosigint=True)
        self._reached = False

    def stop_here(self, frame: FrameType) -> bool:
        """Whether to stop in this frame."""
        self._reached = self._reached or frame.f_globals.get("__name__") == "__main__"
        return self._reached and super().stop_here(frame)


def _serve_pdb(listener: socket.socket) -> None:
    """Give the program's main thread to pdb on the first connection; it stops at the program's first line."""
    connection, _ = listener.accept()
    listener.close()
    debugger = _ProgramDebugger(connection)
    debugger.reset()
    debugger.set_step()
    sys.settrace(debugger.trace_dispatch)
