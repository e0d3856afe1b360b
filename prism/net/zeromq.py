"""The transport over ZeroMQ: a ROUTER for the coordinator, a DEALER for each worker, CURVE between them.

On the wire a message is one frame, and what the transport says for itself is two, a verb and its argument: HELLO with
the identity, answered by WELCOME, or by REFUSED or TAKEN with the reason, and BYE, answered by BYE. Identities travel
in HELLO because ZeroMQ's own (the routing id of a socket) cannot refuse: a second socket of the same routing id is kept
waiting for ever, and its first message is then taken for its name.

A connection is not resumed when it breaks: the DEALER does not reconnect, and therefore sees the break by having
nobody left to send to. The ROUTER sees it by the monitor, which names connections by file descriptor; every HELLO
carries the descriptor it came by. Descriptors are used again, so the ends that the monitor tells are always taken in
before a HELLO that was read earlier, and what a broken connection still delivered is taken in before its end: that is
when ZeroMQ knows no way to it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import zmq

from prism.errors import RunError
from prism.net.dealer import BYE, HELLO, REFUSED, TAKEN, WELCOME, ZmqConnection, connect
from prism.net.gate import Gate
from prism.net.keys import CoordinatorKeys
from prism.net.limits import MAX_MESSAGE, MAX_UNREAD, check_size
from prism.net.log import LogOnce
from prism.net.transport import (
    FAREWELL_S,
    ConnectionClosed,
    ConnectionRefused,
    IdentityTaken,
    Inbox,
    Listener,
    UnknownPeer,
    refuse,
)
from prism.net.watch import Watch, events, open_socket, shut_socket

__all__ = ["BYE", "HELLO", "REFUSED", "TAKEN", "WELCOME", "ZmqConnection", "ZmqListener", "connect"]


class ZmqListener(Listener):
    """A ROUTER bound to `address` (`tcp://host:port`, `tcp://host:*` or `ipc://path`); needs a running loop."""

    def __init__(self, keys: CoordinatorKeys, address: str = "tcp://127.0.0.1:*", *, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._log = LogOnce(logging.getLogger(__name__))
        self._inbox: Inbox[tuple[str, bytes | None]] = Inbox()
        self._identities: dict[bytes, str] = {}  # by routing id
        self._routes: dict[str, bytes] = {}  # the inverse
        self._named: dict[int, bytes] = {}  # routing ids of connections that said HELLO, by file descriptor
        self._hellos: list[tuple[bytes, bytes, int]] = []  # routing id, identity, file descriptor
        self._broken: set[bytes] = set()  # routing ids of connections that have ended, but may still deliver
        self._dropped: set[bytes] = set()  # routing ids of peers that are there, but are not listened to
        self._unread: dict[str, int] = {}  # bytes of each peer that nobody has received
        self._deserted = asyncio.Event()  # no peer is left after `close` began
        self._socket = open_socket(zmq.ROUTER, limit)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._gate = Gate(self._socket.context, self._socket, keys, self._look)
        self._watch = Watch(self._socket, self._look)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self.release()
            raise RunError(f"cannot listen on {address}: {error.strerror}") from error
        self._address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    @property
    def address(self) -> str:
        return self._address

    async def recv(self) -> tuple[str, bytes | None]:
        peer, data = await self._inbox.get()
        if peer in self._unread:
            self._unread[peer] -= len(data or b"")
        return peer, data

    def drop(self, peer: str, reason: str) -> None:
        route = self._routes.get(peer)
        if route is not None:
            self._dropped.add(route)
            self._route(route, REFUSED, reason.encode())
            self._forget(route)

    def send(self, peer: str, data: bytes) -> None:
        if self._inbox.end is not None:
            raise ConnectionClosed(self._inbox.end)
        check_size(data, self._limit)
        if peer not in self._routes or not self._route(self._routes[peer], data):
            raise UnknownPeer(peer, (other for other in self._routes if other != peer))

    async def close(self) -> None:
        if self._inbox.end is not None:
            return
        self._inbox.close("this listener is closed")
        for route in self._identities:
            self._route(route, BYE, b"")
        try:
            if self._identities:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._deserted.wait(), FAREWELL_S)
        finally:
            self.release()

    def release(self) -> None:
        """Drop all connections and the address without a goodbye."""
        self._watch.close()
        self._gate.close()
        shut_socket(self._socket)

    def _route(self, route: bytes, *frames: bytes) -> bool:
        """Send to a routing id; False if its connection is gone."""
        try:
            self._socket.send_multipart([route, *frames], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        finally:
            self._watch.again()
        return True

    def _look(self) -> None:
        self._drain()
        hellos, self._hellos = self._hellos, []
        for fd in self._gate.ended():
            self._end(fd)
        self._forget_broken()
        if self._broken:  # one of them may still have the name that a new one wants
            self._hellos = hellos + self._hellos
            return
        for hello in hellos:
            self._admit(*hello)
        if self._hellos:
            self._watch.again()

    def _drain(self) -> None:
        while events(self._socket) & zmq.POLLIN:
            route = self._socket.recv(zmq.NOBLOCK)
            if route in self._identities:
                self._take(route, self._socket.recv_multipart())
            else:
                self._meet(route, self._socket.recv_multipart(copy=False))

    def _take(self, route: bytes, frames: list[bytes]) -> None:
        match frames:
            case [data]:
                self._keep(self._identities[route], data)
            case [verb, _] if verb == BYE:
                if self._inbox.end is None:
                    self._route(route, BYE, b"")
                self._forget(route)
            case _:
                self._log.warn(self._identities[route], f"dropped a message of {len(frames)} frames")

    def _keep(self, peer: str, data: bytes) -> None:
        if self._unread[peer] + len(data) > MAX_UNREAD:
            reason = f"it has said more than {MAX_UNREAD} bytes that nobody has heard yet"
            self._log.warn(peer, reason)
            self.drop(peer, reason)
        else:
            self._unread[peer] += len(data)
            self._inbox.put((peer, data))

    def _meet(self, route: bytes, frames: list[zmq.Frame]) -> None:
        if route in self._dropped:
            return
        match [frame.bytes for frame in frames]:
            case [verb, identity] if verb == HELLO:
                self._hellos.append((route, identity, int(frames[0].get(zmq.SRCFD))))
            case [verb, _] if verb == BYE:
                pass  # the answer to ours, or the goodbye of a connection that was refused
            case _:
                self._log.warn(f"unnamed peers at {self._address}", "dropped a message of a peer that was not admitted")

    def _admit(self, route: bytes, name: bytes, fd: int) -> None:
        self._named[fd] = route
        self._gate.named(fd)
        identity = name.decode(errors="backslashreplace")
        try:
            refuse(identity, self._routes, self._inbox.end)
        except ConnectionRefused as refused:
            self._log.warn(identity, f"refused a connection: {refused}")
            self._route(route, TAKEN if isinstance(refused, IdentityTaken) else REFUSED, str(refused).encode())
            return
        if self._route(route, WELCOME, b""):
            self._identities[route] = identity
            self._routes[identity] = route
            self._unread[identity] = 0

    def _end(self, fd: int) -> None:
        route = self._named.pop(fd, None)
        if route is None:
            self._gate.ended_unnamed(self._address)
        elif route in self._identities:
            self._broken.add(route)
        self._dropped.discard(route or b"")

    def _forget_broken(self) -> None:
        """The monitor may tell an end before ZeroMQ hands out what came before: it has, once it knows no way there."""
        gone = [route for route in self._broken if not self._route(route, BYE, b"")]
        if gone:
            self._drain()
        for route in gone:
            self._broken.remove(route)
            if route in self._identities:
                self._forget(route)

    def _forget(self, route: bytes) -> None:
        identity = self._identities.pop(route)
        del self._routes[identity], self._unread[identity]
        self._inbox.put((identity, None))
        if self._inbox.end is not None and not self._identities:
            self._deserted.set()
