"""Messages on a unix socket between a worker and its ranks: four bytes of length, then MessagePack."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from prism.errors import ProtocolError
from prism.net.limits import MAX_WHOLE, check_size

_LENGTH = struct.Struct("<I")


def pack(message: msgspec.Struct) -> bytes:
    """One frame; raises MessageTooLarge."""
    body = msgspec.msgpack.encode(message)
    check_size(body, MAX_WHOLE)
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
                if length > MAX_WHOLE:
                    raise ProtocolError(f"a frame of {length} bytes is announced, {MAX_WHOLE} is the most")
                stop = start + _LENGTH.size + length
                if len(self._buffer) < stop:
                    break
                message = self._message(start + _LENGTH.size, stop)
                start = stop
                yield message
        finally:
            del self._buffer[:start]

    def _message(self, start: int, stop: int) -> T:
        """What lies between two bytes of the buffer, decoded in place: it may be large."""
        with memoryview(self._buffer) as buffer, buffer[start:stop] as body:
            try:
                return self._decoder.decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise ProtocolError(f"a frame of {stop - start} bytes is no message: {error}") from None
