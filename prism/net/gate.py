"""Who may talk to the coordinator: only peers that hold the keys of this run, checked before a byte of theirs is read.

ZeroMQ asks its authenticator (ZAP, ZeroMQ RFC 27) about every peer that completes the CURVE handshake; a peer that
does not even get there (no CURVE, another server key, not ZeroMQ at all) is dropped by the socket itself. Both are
told here: the first by the question, the second by the socket's monitor, as a connection that ended unnamed. The
monitor does not know addresses, so all peers of the second kind count as one source. Who is silent is dropped after
HANDSHAKE_S, and where too many are at a time, the oldest of them: connections cost files, of which a run needs many.
"""

from __future__ import annotations

import logging
import os
import socket as stdlib
from collections.abc import Callable

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from prism.net.keys import CoordinatorKeys
from prism.net.limits import HANDSHAKE_S, MAX_UNNAMED
from prism.net.log import LogOnce
from prism.net.watch import Watch, received

_DOMAIN = b"prism"  # any name will do, but without one ZeroMQ does not insist on the authenticator's answer


class Gate:
    """Lets the workers of this run in through `socket`, and tells which connections ended."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        keys: CoordinatorKeys,
        look: Callable[[], None],
    ) -> None:
        self._log = LogOnce(logging.getLogger(__name__))
        self._worker_public = z85.decode(keys.worker_public)
        self._denied = 0  # connections that were denied and whose end is still to be told
        self._zap = context.socket(zmq.REP)
        self._zap.bind("inproc://zeromq.zap.01")
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
        socket.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN)
        self._socket = socket
        socket.setsockopt(zmq.HANDSHAKE_IVL, int(HANDSHAKE_S * 1000))
        self._unnamed: dict[int, None] = {}  # file descriptors of connections that have not said who they are, by age
        self._monitor = socket.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._watches = (Watch(self._zap, self._answer), Watch(self._monitor, look))

    def ended(self) -> list[int]:
        """File descriptors of the connections that ended since the last call, oldest first; makes room for others."""
        ended: list[int] = []
        for event in map(parse_monitor_message, received(self._monitor)):
            descriptor = event["value"]
            if event["event"] == zmq.EVENT_ACCEPTED:
                self._unnamed[descriptor] = None
            else:
                self._unnamed.pop(descriptor, None)
                ended.append(descriptor)
        while len(self._unnamed) > MAX_UNNAMED:
            oldest = next(iter(self._unnamed))
            del self._unnamed[oldest]
            self._hang_up(oldest)
        return ended

    def named(self, descriptor: int) -> None:
        """A connection has said who it is."""
        self._unnamed.pop(descriptor, None)

    def ended_unnamed(self, address: str) -> None:
        """A connection to `address` ended that never got as far as naming itself."""
        if self._denied:
            self._denied -= 1
        else:
            self._log.warn(f"unauthenticated peers at {address}", "dropped a connection without the keys of this run")

    def close(self) -> None:
        """Stop answering and watching; the socket itself is left open."""
        for watch in self._watches:
            watch.close()
        self._socket.disable_monitor()
        self._monitor.close()
        self._zap.close()

    def _answer(self) -> None:
        for version, request, _domain, address, _identity, _mechanism, *credentials in received(self._zap):
            allowed = credentials == [self._worker_public]
            status = b"200" if allowed else b"400"
            self._zap.send_multipart([version, request, status, b"", b"", b""])
            if not allowed:
                self._denied += 1
                self._log.warn(address.decode(errors="replace"), "refused a peer whose key is not of this run")

    def _hang_up(self, descriptor: int) -> None:
        """Let ZeroMQ find a connection ended, which it gives no other way to end."""
        port = self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]
        try:
            with stdlib.socket(fileno=os.dup(descriptor)) as connection:
                inet = connection.family in (stdlib.AF_INET, stdlib.AF_INET6)
                if inet and str(connection.getsockname()[1]) == port:  # else it has ended, and this is another file
                    connection.shutdown(stdlib.SHUT_RDWR)
        except OSError:
            pass  # it has ended, and its end is about to be told
