"""The worker's end of a rank's socket: frames in, frames out."""

from __future__ import annotations

import array
import asyncio
import fcntl
import termios
from typing import Protocol, cast

from prism.core.events import AnyEvent
from prism.core.instructions import AnyInstruction
from prism.errors import ProtocolError
from prism.gpu.processes.birth import Introduction
from prism.net.frames import Unpacker, pack


class Listener(Protocol):
    """Who hears what ranks say."""

    def introduce(self, introduction: Introduction, line: RankLine) -> None:
        """A rank says whose line it is."""

    def report(self, event: AnyEvent) -> None:
        """A rank did something."""

    def garbled(self, rank: int | None, what: str) -> None:
        """A rank, or somebody who has not said which, says what nobody understands."""


class RankLine(asyncio.Protocol):
    """One rank's socket; what it says of other ranks is dropped."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._frames: Unpacker[AnyEvent | Introduction] = Unpacker(AnyEvent | Introduction)
        self._rank: int | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is none of asyncio's

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._frames.feed(data):
                self._hear(event)
        except ProtocolError as error:
            self._listener.garbled(self._rank, str(error))
            self.close()

    def _hear(self, event: AnyEvent | Introduction) -> None:
        if isinstance(event, Introduction):
            self._rank = event.rank
            self._listener.introduce(event, self)
        elif event.rank == self._rank:
            self._listener.report(event)

    def send(self, instruction: AnyInstruction) -> None:
        """Pass an instruction on; one for a rank that has left is dropped, its Exited is on the way."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(pack(instruction))

    def unread(self) -> bool:
        """Whether the kernel still holds bytes that the rank has sent."""
        if self._transport is None or self._transport.is_closing():
            return False
        count = array.array("i", [0])
        try:
            fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.FIONREAD, count)
        except OSError:
            return False
        return count[0] > 0

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
