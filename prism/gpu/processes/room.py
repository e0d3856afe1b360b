"""Where ranks ask for device memory that another would have to give up: the worker's end of sockets of their own.

The thread that asks may hold locks of torch and of the interpreter, so it is C++ that asks (ext/cuda/room.cpp): first
the rank's number, then for each question three numbers, the bytes needed, the bytes that the device has free, and the
number of the device. The answer is one byte. All numbers have eight bytes, of this machine's order.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import cast

from prism.core.events import Pressed

_RANK = struct.Struct("=Q")
_QUESTION = struct.Struct("=QQQ")


def room_socket(worker: Path | str) -> Path:
    """Where ranks ask, from where they speak to their worker."""
    return Path(f"{worker}.room")


class Rooms:
    """The ranks that can ask, by their number; `press` hears what they ask, `runs` says whether one is of the stage."""

    def __init__(self, press: Callable[[Pressed], None], runs: Callable[[int], bool]) -> None:
        self._press = press
        self._runs = runs
        self._lines: dict[int, asyncio.Transport] = {}

    def line(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        return _RoomLine(self)

    def introduce(self, rank: int, transport: asyncio.Transport) -> bool:
        """A rank can ask from now on; false if it is none of the stage."""
        if not self._runs(rank):
            return False
        self._lines[rank] = transport
        return True

    def press(self, event: Pressed) -> None:
        """A rank asks."""
        self._press(event)

    def answer(self, rank: int, granted: bool) -> None:
        """Tell a rank, if it is still there, whether to try again."""
        line = self._lines.get(rank)
        if line is not None and not line.is_closing():
            line.write(b"\1" if granted else b"\0")


class _RoomLine(asyncio.Protocol):
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._rank: int | None = None
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._rank is None and len(self._buffer) >= _RANK.size:
            assert self._transport is not None
            (rank,) = _RANK.unpack_from(self._buffer)
            del self._buffer[: _RANK.size]
            if not self._rooms.introduce(rank, self._transport):
                self._transport.close()
                self._buffer.clear()
                return
            self._rank = rank
        while self._rank is not None and len(self._buffer) >= _QUESTION.size:
            needed, free, device = _QUESTION.unpack_from(self._buffer)
            del self._buffer[: _QUESTION.size]
            self._rooms.press(Pressed(rank=self._rank, nbytes=needed, free=free, device=device))
