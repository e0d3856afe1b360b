"""The worker's side of the transport over ZeroMQ: a DEALER that has said HELLO; see prism.net.zeromq for the whole."""

from __future__ import annotations

import asyncio
import contextlib

import zmq

from prism.errors import RunError
from prism.net.keys import WorkerKeys
from prism.net.limits import MAX_MESSAGE, check_size
from prism.net.transport import FAREWELL_S, Connection, ConnectionClosed, ConnectionRefused, IdentityTaken, Inbox
from prism.net.watch import Watch, events, open_socket, shut_socket

HELLO, WELCOME, REFUSED, TAKEN, BYE = b"hello", b"welcome", b"refused", b"taken", b"bye"

CONNECT_S = 30.0
"""How long `connect` waits; ZeroMQ itself says nothing when no one listens."""


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
            case [verb, reason] if verb == TAKEN:
                self._end(reason.decode(), IdentityTaken)
            case [verb, _] if verb == BYE:
                if self._inbox.end is None:
                    self._say(BYE, b"")
                self._end("the listener closed the connection")

    def _end(self, reason: str, kind: type[ConnectionRefused] = ConnectionRefused) -> None:
        self._inbox.close(reason)
        self._ended.set()
        if not self.admission.done():
            self.admission.set_exception(kind(f"{self._address}: {reason}"))


async def connect(
    address: str, identity: str, keys: WorkerKeys, *, limit: int = MAX_MESSAGE, within: float = CONNECT_S
) -> Connection:
    """Connect to a ZmqListener under a name; raises IdentityTaken, or ConnectionRefused, also where nobody answers."""
    connection = ZmqConnection(address, identity, keys, limit)
    try:
        await asyncio.wait_for(connection.admission, within)
    except TimeoutError:
        connection.release()
        raise ConnectionRefused(f"{address}: no answer in {within:.0f} s; is the coordinator running?") from None
    except BaseException:
        connection.release()
        raise
    return connection
