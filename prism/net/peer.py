"""Pulling payloads from one other host: chunk by chunk, no more under way than fits the window.

Who pulls asks for every chunk, so neither side ever holds more than the window, whatever is to be moved: a reader that
falls behind asks for less.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from prism.core.calls import Ref
from prism.errors import PrismError, RunError
from prism.net.channel import Channel
from prism.net.payloads import CHUNK
from prism.net.transport import ConnectionClosed

WINDOW = 8 << 20
"""Bytes that may be under way from one host to another: at 10 ms there and back, 800 MB/s."""
LEAST = 4 << 10
"""What a small chunk counts for: its message has a price of its own."""

Write = Callable[[int, bytes], None]
"""Takes the bytes at an offset of a payload."""


class Fetch(msgspec.Struct, tag=True, frozen=True):
    """Who pulls: send me these bytes; `number` is my own for them."""

    number: int
    payload: Ref


class Chunk(msgspec.Struct, tag=True, frozen=True):
    """The other side: here they are."""

    number: int
    data: bytes


class Missing(msgspec.Struct, tag=True, frozen=True):
    """The other side: I do not have them, and why."""

    number: int
    reason: str


class NotThere(RunError):
    """The host that should have a payload does not have it."""


class Window:
    """So many bytes may be under way; who asks for more waits, first come first served."""

    def __init__(self, size: int = WINDOW) -> None:
        self._free = size
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, nbytes: int) -> None:
        """Return when so many more may be."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((nbytes, turn))
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(nbytes)
            raise

    def give_back(self, nbytes: int) -> None:
        """So many have arrived, or never will."""
        self._free += nbytes
        self._grant()

    def _grant(self) -> None:
        while self._line and (self._line[0][1].done() or self._line[0][0] <= self._free):
            nbytes, turn = self._line.popleft()
            if not turn.done():
                self._free -= nbytes
                turn.set_result(None)


class Peer:
    """One other host, over a connection to its ferry."""

    def __init__(self, name: str, channel: Channel[Chunk | Missing, Fetch]) -> None:
        self._name = name
        self._channel = channel
        self._window = Window()
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = 0
        self._lost: ConnectionClosed | None = None  # why nothing comes any more
        self._receiving = asyncio.ensure_future(self._receive())

    async def pull(self, payload: Ref, write: Write) -> None:
        """Write all bytes of a payload; raises NotThere, or ConnectionClosed if the host is lost or talks nonsense."""
        chunks = [(at, payload.part(at, min(CHUNK, payload.nbytes - at))) for at in range(0, payload.nbytes, CHUNK)]
        pulling: list[asyncio.Task[None]] = []
        try:
            for at, chunk in chunks:
                await self._window.take(_weight(chunk))
                pulling.append(asyncio.ensure_future(self._pull(at, chunk, write)))
            await asyncio.gather(*pulling)
        finally:
            for one in pulling:
                one.cancel()

    async def close(self) -> None:
        """Hang up."""
        self._receiving.cancel()
        await self._channel.close()

    async def _pull(self, at: int, chunk: Ref, write: Write) -> None:
        if self._lost is not None:
            raise self._lost
        self._numbers += 1
        number = self._numbers
        arrival = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(Fetch(number, chunk))
            data = await arrival
            if len(data) != chunk.nbytes:  # the room of other copies is beside this one's
                raise NotThere(f"{self._name}: {chunk.nbytes} bytes were asked for, and {len(data)} came")
            write(at, data)
        finally:
            self._asked.pop(number, None)
            self._window.give_back(_weight(chunk))

    async def _receive(self) -> None:
        try:
            while True:
                self._take_in(await self._channel.recv())
        except PrismError as error:
            self._lost = ConnectionClosed(f"{self._name} does not send payloads any more: {error}")
            for arrival in self._asked.values():
                if not arrival.done():
                    arrival.set_exception(self._lost)

    def _take_in(self, answer: Chunk | Missing) -> None:
        arrival = self._asked.get(answer.number)
        if arrival is None or arrival.done():
            return  # nobody waits for it any more
        if isinstance(answer, Chunk):
            arrival.set_result(answer.data)
        else:
            arrival.set_exception(NotThere(f"{self._name}: {answer.reason}"))


def _weight(chunk: Ref) -> int:
    return max(chunk.nbytes, LEAST)
