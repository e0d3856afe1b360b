"""The door of a host in an emulation: who dials is let in if it knows the token, and refused with a line of the log.

It belongs to the worker, as the gateway behind it does. A stranger costs a thread and a file for HELLO_TIMEOUT_S, or
until it is the oldest of too many; nothing of what it says is looked at.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable

from prism.gpu.pruned.bridge import Line, Link, answer
from prism.net.limits import MAX_UNNAMED
from prism.net.log import LogOnce

BEGIN_S = 60.0
"""How long another host may be ahead of this one in the beginning of an emulation."""
AGAIN_S = 0.1
"""Until who could not be let in for want of something is let in again."""


class Door:
    """Listens at `host`; `meet` is called with each connection that is let in, in a thread of its own."""

    def __init__(self, host: str, meet: Callable[[Link, Line], None]) -> None:
        self._meet = meet
        self._log = LogOnce(logging.getLogger(__name__))
        self._server = socket.create_server((host.strip("[]"), 0), family=_family(host))
        self._token: bytes | None = None
        self._changed = threading.Condition()
        self._strangers: dict[socket.socket, None] = {}  # by age
        threading.Thread(target=self._accept, name="prism-door", daemon=True).start()

    @property
    def address(self) -> str:
        """Where others dial, host:port."""
        host, port = self._server.getsockname()[:2]
        return f"{host}:{port}"

    def open(self, token: bytes | None) -> None:
        """Let in who knows this token; None lets nobody in."""
        with self._changed:
            self._token = token
            self._changed.notify_all()

    def close(self) -> None:
        """Listen no more."""
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, source = self._server.accept()
            except OSError:
                if self._server.fileno() < 0:  # closed
                    return
                time.sleep(AGAIN_S)  # no descriptor is free, for one; who dials waits
                continue
            with self._changed:
                self._strangers[connection] = None
                crowd = list(self._strangers)[:-MAX_UNNAMED]
            for oldest in crowd:
                self._turn_away(oldest)
            threading.Thread(target=self._ask, args=(connection, source[0]), name="prism-met", daemon=True).start()

    def _turn_away(self, stranger: socket.socket) -> None:
        """Its own thread finds that it is gone."""
        with self._changed:
            self._strangers.pop(stranger, None)
        with contextlib.suppress(OSError):  # it has gone by itself
            stranger.shutdown(socket.SHUT_RDWR)

    def _ask(self, connection: socket.socket, source: str) -> None:
        try:
            link, line = answer(connection, self._awaited())
        except OSError as error:  # PermissionError is one
            self._log.warn(source, f"refused a connection between hosts of an emulation: {error}")
            connection.close()
            return
        finally:
            with self._changed:
                self._strangers.pop(connection, None)
        self._meet(link, line)

    def _awaited(self) -> bytes:
        """The token, once there is one. Raises PermissionError if none comes."""
        with self._changed:
            self._changed.wait_for(lambda: self._token is not None, BEGIN_S)
            if self._token is None:
                raise PermissionError("no emulation is under way")
            return self._token


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
