"""Typed messages over a transport: one closed msgspec union each way, as msgpack in numbered parts.

A peer of another version is told so: the worker raises OtherVersion; the coordinator, which has others to serve, logs
it, and tells the peer its own version (a message that has nothing else). A message of the right version that does not
decode, or is not the next one, ends the connection's usefulness, for nobody knows what was lost with it: the worker
raises Malformed, the coordinator takes the peer for ended and knows why. Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Generic, Self, TypeVar

import msgspec

from prism.net.log import LogOnce
from prism.net.numbered import Incoming, Malformed, OtherVersion, Outgoing
from prism.net.transport import Connection, ConnectionClosed, Listener, UnknownPeer

VERSION = 2
"""To be counted up with every change of the messages that an older peer would misread."""

In = TypeVar("In")
Out = TypeVar("Out")


class Codec(Generic[In, Out]):
    """Bytes to messages of the union `incoming`, and messages of the other side's union to bytes."""

    def __init__(self, incoming: Any, version: int = VERSION) -> None:  # Any: `type[In]` does not admit a union
        self.version_only = version.to_bytes(2, "big")
        self._version = version
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[In] = msgspec.msgpack.Decoder(incoming)

    def outgoing(self) -> Outgoing[Out]:
        """What numbers and encodes the messages of one connection."""
        return Outgoing(self._encoder, self._version)

    def incoming(self) -> Incoming[In]:
        """What puts together and decodes the messages of one connection."""
        return Incoming(self._decoder, self._version)


class Channel(Generic[In, Out]):
    """A worker's side: a Connection that carries messages of a closed union each way."""

    def __init__(self, connection: Connection, codec: Codec[In, Out]) -> None:
        self._connection = connection
        self._incoming, self._outgoing = codec.incoming(), codec.outgoing()

    async def recv(self) -> In:
        """The next message; raises ConnectionClosed, or ProtocolError: nothing that comes after can be trusted."""
        while True:
            message = self._incoming.take(await self._connection.recv())
            if message is not None:
                return message

    def send(self, message: Out) -> None:
        """Queue a message; raises what Connection.send raises."""
        for part in self._outgoing.parts(message):
            self._connection.send(part)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Hub(Generic[In, Out]):
    """The coordinator's side: a Listener that carries messages of a closed union each way."""

    def __init__(self, listener: Listener, codec: Codec[In, Out]) -> None:
        self._listener = listener
        self._codec = codec
        self._incoming: dict[str, Incoming[In]] = {}  # by peer
        self._outgoing: dict[str, Outgoing[Out]] = {}
        self._deaf: set[str] = set()  # to peers that were dropped, until their end arrives
        self._faults: dict[str, str] = {}  # of those that were dropped last under their names
        self._log = LogOnce(logging.getLogger(__name__))

    @property
    def address(self) -> str:
        """Where to connect to."""
        return self._listener.address

    async def recv(self) -> tuple[str, In | None]:
        """The next message of any peer, or `(peer, None)` for its end; raises ConnectionClosed after `close`."""
        while True:
            peer, data = await self._listener.recv()
            if data is None:
                self._end(peer)
                return peer, None
            if peer in self._deaf:
                continue
            try:
                message = self._incoming.setdefault(peer, self._codec.incoming()).take(data)
            except OtherVersion as error:
                self._refuse(peer, error)
            except Malformed as error:
                self._drop(peer, str(error))
            else:
                if message is not None:
                    return peer, message

    def fault(self, peer: str) -> str:
        """Why a peer that has ended was dropped, "" if it was not."""
        return self._faults.get(peer, "")

    def send(self, peer: str, message: Out) -> None:
        """Queue a message; raises what Listener.send raises."""
        try:
            for part in self._outgoing.setdefault(peer, self._codec.outgoing()).parts(message):
                self._listener.send(peer, part)
        except UnknownPeer:
            del self._outgoing[peer]
            raise

    async def close(self) -> None:
        """Close the listener."""
        await self._listener.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _end(self, peer: str) -> None:
        self._incoming.pop(peer, None)
        self._outgoing.pop(peer, None)
        if peer in self._deaf:
            self._deaf.remove(peer)
        else:
            self._faults.pop(peer, None)

    def _drop(self, peer: str, reason: str) -> None:
        self._log.warn(peer, reason)
        self._faults[peer] = reason
        self._deaf.add(peer)
        self._listener.drop(peer, reason)

    def _refuse(self, peer: str, error: OtherVersion) -> None:
        self._log.warn(peer, str(error))
        with contextlib.suppress(UnknownPeer, ConnectionClosed):  # whoever has left needs no answer
            self._listener.send(peer, self._codec.version_only)
