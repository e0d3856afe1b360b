"""The transport over ZeroMQ: a ROUTER for the coordinator, a DEALER for each worker, CURVE between them.

On the wire a message is one frame, and what the transport says for itself is two, a verb and its argument: HELLO with
the identity, answered by WELCOME or REFUSED with the reason, and BYE, answered by BYE. Identities travel in HELLO
because ZeroMQ's own (the routing id of a socket) cannot refuse: a second socket of the same routing id is kept waiting
for ever, and its first message is then taken for its name.

A connection is not resumed when it breaks: the DEALER does not reconnect, and therefore sees the break by having
nobody left to send to. The ROUTER sees it by the monitor, which names connections by file descriptor; every HELLO
carries the descriptor it came by. Descriptors are used again, so the ends that the monitor tells are always taken in
before a HELLO that was read earlier, and what a broken connection still delivered is taken in before its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import zmq

from prism.errors import RunError
from prism.net.gate import Gate
from prism.net.keys import CoordinatorKeys, WorkerKeys
from prism.net.log import LogOnce
from prism.net.transport import (
    FAREWELL_S,
    MAX_MESSAGE,
    Connection,
    ConnectionClosed,
    ConnectionRefused,
    Inbox,
    Listener,
    UnknownPeer,
    check_size,
    refusal,
)
from prism.net.watch import Watch, events, open_socket, shut_socket

HELLO, WELCOME, REFUSED, BYE = b"hello", b"welcome", b"refused", b"bye"

CONNECT_S = 30.0
"""How long `connect` waits; ZeroMQ itself gives a handshake 30 s, and says nothing when no one listens."""


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
        return await self._inbox.get()

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
        if ends := self._gate.ended():
            self._drain()
        for fd in ends:
            self._broken(fd)
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
                self._inbox.put((self._identities[route], data))
            case [verb, _] if verb == BYE:
                if self._inbox.end is None:
                    self._route(route, BYE, b"")
                self._forget(route)
            case _:
                self._log.warn(self._identities[route], f"dropped a message of {len(frames)} frames")

    def _meet(self, route: bytes, frames: list[zmq.Frame]) -> None:
        match [frame.bytes for frame in frames]:
            case [verb, identity] if verb == HELLO:
                self._hellos.append((route, identity, int(frames[0].get(zmq.SRCFD))))
            case [verb, _] if verb == BYE:
                pass  # the answer to ours, or the goodbye of a connection that was refused
            case _:
                self._log.warn(f"unnamed peers at {self._address}", "dropped a message of a peer that was not admitted")

    def _admit(self, route: bytes, name: bytes, fd: int) -> None:
        self._named[fd] = route
        identity = name.decode(errors="backslashreplace")
        reason = self._inbox.end or refusal(identity, self._routes)
        if reason is not None:
            self._log.warn(identity, f"refused a connection: {reason}")
            self._route(route, REFUSED, reason.encode())
        elif self._route(route, WELCOME, b""):
            self._identities[route] = identity
            self._routes[identity] = route

    def _broken(self, fd: int) -> None:
        route = self._named.pop(fd, None)
        if route is None:
            self._gate.ended_unnamed(self._address)
        elif route in self._identities:
            self._forget(route)

    def _forget(self, route: bytes) -> None:
        identity = self._identities.pop(route)
        del self._routes[identity]
        self._inbox.put((identity, None))
        if self._inbox.end is not None and not self._identities:
            self._deserted.set()


class ZmqConnection(Connection):
    """A DEALER that has said HELLO; made by `connect`, which waits for the answer."""

    def __init__(self, address: str, identity: str, keys: WorkerKeys, limit: int) -> None:
        self._address = address
        self._limit = limit
        self._inbox: Inbox[bytes] = Inbox()
        self._closing = False
        self._ended = asyncio.Event()  # the other side is gone
        self.admission: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._socket = open_socket(zmq.DEALER, limit)
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self._socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
        self._socket.setsockopt(zmq.CURVE_SERVERKEY, keys.coordinator_public.encode())
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            shut_socket(self._socket)
            raise RunError(f"cannot connect to {address}: {error.strerror}") from error
        self._watch = Watch(self._socket, self._look)
        self._say(HELLO, identity.encode())

    async def recv(self) -> bytes:
        return await self._inbox.get()

    def send(self, data: bytes) -> None:
        if self._inbox.end is not None:
            raise ConnectionClosed(self._inbox.end)
        check_size(data, self._limit)
        self._say(data)

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._inbox.close("this connection is closed")
        try:
            if not self._ended.is_set():
                self._say(BYE, b"")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), FAREWELL_S)
        finally:
            self.release()

    def release(self) -> None:
        """Drop the connection without a goodbye."""
        self._watch.close()
        shut_socket(self._socket)

    def _say(self, *frames: bytes) -> None:
        # A DEALER with unbounded queues has no room only when its connection is gone, which `_look` finds out.
        with contextlib.suppress(zmq.Again):
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        self._watch.again()

    def _look(self) -> None:
        while (possible := events(self._socket)) & zmq.POLLIN:
            self._take(self._socket.recv_multipart(zmq.NOBLOCK))
        if not possible & zmq.POLLOUT:
            self._end("the connection to the coordinator broke")

    def _take(self, frames: list[bytes]) -> None:
        match frames:
            case [data]:
                self._inbox.put(data)
            case [verb, _] if verb == WELCOME:
                if not self.admission.done():
                    self.admission.set_result(None)
            case [verb, reason] if verb == REFUSED:
                self._end(reason.decode())
            case [verb, _] if verb == BYE:
                if self._inbox.end is None:
                    self._say(BYE, b"")
                self._end("the listener closed the connection")

    def _end(self, reason: str) -> None:
        self._inbox.close(reason)
        self._ended.set()
        if not self.admission.done():
            self.admission.set_exception(ConnectionRefused(f"{self._address}: {reason}"))


async def connect(address: str, identity: str, keys: WorkerKeys, *, limit: int = MAX_MESSAGE) -> Connection:
    """Connect to a ZmqListener under a name; raises ConnectionRefused, also for keys of another run or no answer."""
    connection = ZmqConnection(address, identity, keys, limit)
    try:
        await asyncio.wait_for(connection.admission, CONNECT_S)
    except TimeoutError:
        connection.release()
        raise ConnectionRefused(f"{address}: no answer in {CONNECT_S:.0f} s; is the coordinator running?") from None
    except BaseException:
        connection.release()
        raise
    return connection
