"""Messages as numbered parts: what was lost, came twice, out of order or cut on the way is found out, not acted upon.

Every part starts with the protocol's version, so that two versions that share nothing else still understand that they
differ, then its number in this direction of this connection, and whether more of the message follows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from prism.errors import ProtocolError
from prism.net.limits import MAX_PART, MAX_WHOLE, check_size

_VERSION = struct.Struct(">H")
_HEADER = struct.Struct(">HQB")  # version, number, 1: more follows

In = TypeVar("In")
Out = TypeVar("Out")


class Malformed(ProtocolError):
    """A message of the right version that is none of the union, or not all of one."""


class OtherVersion(ProtocolError):
    """A message of another version of the protocol."""


class Outgoing(Generic[Out]):
    """One direction of one connection, where it begins."""

    def __init__(self, encoder: msgspec.msgpack.Encoder, version: int) -> None:
        self._encoder = encoder
        self._version = version
        self._number = 0

    def parts(self, message: Out) -> Iterator[bytes]:
        """The message in parts, to be sent in this order; raises MessageTooLarge."""
        encoded = self._encoder.encode(message)
        check_size(encoded, MAX_WHOLE)
        body = memoryview(encoded)
        for at in range(0, len(body), MAX_PART):
            header = _HEADER.pack(self._version, self._number, at + MAX_PART < len(body))
            self._number += 1
            yield header + body[at : at + MAX_PART]


class Incoming(Generic[In]):
    """One direction of one connection, where it ends."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[In], version: int) -> None:
        self._decoder = decoder
        self._version = version
        self._number = 0
        self._before = bytearray()  # of a message whose last part has not come

    def take(self, part: bytes) -> In | None:
        """The message that this part completes, None while more follow; raises OtherVersion or Malformed."""
        self._check_version(part)
        if len(part) < _HEADER.size:
            raise Malformed(f"{len(part)} bytes are no part of a message")
        _, number, more = _HEADER.unpack_from(part)
        if number != self._number:
            raise Malformed(f"part {self._number} was awaited, and part {number} came")
        self._number += 1
        if len(self._before) + len(part) > MAX_WHOLE + _HEADER.size:
            raise Malformed(f"a message has more than {MAX_WHOLE} bytes")
        if more or self._before:
            self._before += memoryview(part)[_HEADER.size :]
            if more:
                return None
            body, self._before = memoryview(self._before), bytearray()
        else:
            body = memoryview(part)[_HEADER.size :]
        return decoded(self._decoder, body)

    def _check_version(self, part: bytes) -> None:
        if len(part) < _VERSION.size:
            raise Malformed(f"a message of {len(part)} bytes has no room for the protocol's version")
        (version,) = _VERSION.unpack_from(part)
        if version != self._version:
            raise OtherVersion(
                f"the peer speaks version {version} of the protocol, this side version {self._version}; "
                "run the same release of prism on both"
            )


def decoded(decoder: msgspec.msgpack.Decoder[In], body: Any) -> In:
    """The message in these bytes; raises Malformed."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"a message of {len(body)} bytes does not decode: {error}") from error
