"""Messages on a unix socket between a worker and its ranks: four bytes of length, then MessagePack."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from prism.errors import ProtocolError

_LENGTH = struct.Struct("<I")
MAX_FRAME = 64 << 20
"""Larger frames are refused: metadata of the largest collective is far below it, and tensors do not travel here."""


def pack(message: msgspec.Struct) -> bytes:
    """One frame."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


@functools.cache
def decoder(union: Any) -> msgspec.msgpack.Decoder[Any]:
    """What decodes the messages of a union; made once in a process, for it takes a millisecond and a MiB."""
    return msgspec.msgpack.Decoder(union)


T = TypeVar("T")


class Unpacker(Generic[T]):
    """Bytes in, messages of one closed union out, however the bytes are cut."""

    def __init__(self, union: Any) -> None:
        self._decoder: msgspec.msgpack.Decoder[T] = decoder(union)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[T]:
        """The messages that `data` completes; raises ProtocolError on a frame that is none."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, start)
                if length > MAX_FRAME:
                    raise ProtocolError(f"a frame of {length} bytes is announced, {MAX_FRAME} is the most")
                stop = start + _LENGTH.size + length
                if len(self._buffer) < stop:
                    break
                body = bytes(self._buffer[start + _LENGTH.size : stop])
                start = stop
                try:
                    yield self._decoder.decode(body)
                except msgspec.DecodeError as error:
                    raise ProtocolError(f"a frame of {length} bytes is no message: {error}") from None
        finally:
            del self._buffer[:start]
