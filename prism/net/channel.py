"""Typed messages over a transport: one closed msgspec union each way, as msgpack behind the protocol's version.

Every message starts with the version, so that two versions that share nothing else still understand that they differ.
The worker then raises ProtocolError; the coordinator, which has others to serve, tells the peer its own version (a
message that has nothing else) and drops what it said. A message of the right version that does not decode is dropped
on either side. What is dropped is logged once for each peer; nothing is raised for it, and nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Generic, Self, TypeVar

import msgspec

from prism.errors import ProtocolError
from prism.net.log import LogOnce
from prism.net.transport import Connection, ConnectionClosed, Listener, UnknownPeer

VERSION = 1
"""To be counted up with every change of the messages that an older peer would misread."""

_VERSION_BYTES = 2

In = TypeVar("In")
Out = TypeVar("Out")


class Malformed(ProtocolError):
    """A message of the right version that is none of the union."""


class OtherVersion(ProtocolError):
    """A message of another version of the protocol."""


class Codec(Generic[In, Out]):
    """Bytes to messages of the union `incoming`, and messages of the other side's union to bytes."""

    def __init__(self, incoming: Any, version: int = VERSION) -> None:  # Any: `type[In]` does not admit a union
        self.version_only = version.to_bytes(_VERSION_BYTES, "big")
        self._version = version
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[In] = msgspec.msgpack.Decoder(incoming)

    def encode(self, message: Out) -> bytes:
        """The message behind the version."""
        return self.version_only + self._encoder.encode(message)

    def decode(self, data: bytes) -> In:
        """The message; raises OtherVersion or Malformed."""
        version = int.from_bytes(data[:_VERSION_BYTES], "big")
        if len(data) < _VERSION_BYTES:
            raise Malformed(f"a message of {len(data)} bytes has no room for the protocol's version")
        if version != self._version:
            raise OtherVersion(
                f"the peer speaks version {version} of the protocol, this side version {self._version}; "
                "run the same release of prism on both"
            )
        try:
            return self._decoder.decode(memoryview(data)[_VERSION_BYTES:])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Malformed(f"a message of {len(data)} bytes does not decode: {error}") from error


class Channel(Generic[In, Out]):
    """A worker's side: a Connection that carries messages of a closed union each way."""

    def __init__(self, connection: Connection, codec: Codec[In, Out]) -> None:
        self._connection = connection
        self._codec = codec
        self._log = LogOnce(logging.getLogger(__name__))

    async def recv(self) -> In:
        """The next message; raises ConnectionClosed, or ProtocolError if the coordinator is of another version."""
        while True:
            data = await self._connection.recv()
            try:
                return self._codec.decode(data)
            except Malformed as error:
                self._log.warn("the coordinator", str(error))

    def send(self, message: Out) -> None:
        """Queue a message; raises what Connection.send raises."""
        self._connection.send(self._codec.encode(message))

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
                return peer, None
            try:
                return peer, self._codec.decode(data)
            except ProtocolError as error:
                self._refuse(peer, error)

    def send(self, peer: str, message: Out) -> None:
        """Queue a message; raises what Listener.send raises."""
        self._listener.send(peer, self._codec.encode(message))

    async def close(self) -> None:
        """Close the listener."""
        await self._listener.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _refuse(self, peer: str, error: ProtocolError) -> None:
        self._log.warn(peer, str(error))
        if isinstance(error, OtherVersion):
            with contextlib.suppress(UnknownPeer, ConnectionClosed):  # whoever has left needs no answer
                self._listener.send(peer, self._codec.version_only)
