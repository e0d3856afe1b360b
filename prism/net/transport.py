"""The transport between the coordinator and its workers: whole messages of bytes, in order, between named peers.

One *listener* (the coordinator) and many *connections* (one for each worker). What both implementations, ZeroMQ and
the memory twin, promise:

- A connection names itself once, by its identity, and is admitted or refused before it can send anything. An identity
  belongs to one live connection; a second one that claims it is refused, the first is left alone.
- `send` never blocks and never waits: messages are queued without bound, since a coordinator that waits for one slow
  worker stops all of them, and two sides that wait for room in each other's queue never wake up. What bounds the
  memory is the protocol above, which has few messages in flight for each rank. A listener drops a peer of which more
  than MAX_UNREAD bytes wait to be received.
- Messages between two peers arrive whole, once and in the order they were sent, whether or not the other side is
  receiving. A message above the limit is refused where it is sent.
- A listener may drop a peer: it is told why, and has ended as if it had closed.
- An end is seen once, after every message that arrived before it: a connection's `recv` raises ConnectionClosed, a
  listener receives `(peer, None)` and the identity is free again. A peer that closes and a peer that is lost look
  alike: a broken connection is never resumed, because nobody could tell what was lost with it.
- `close` sends a goodbye and returns when the other side has it, and with it all that was sent before, or has ended,
  or has not answered for FAREWELL_S. What arrived before one's own close can still be received, then ConnectionClosed
  is raised.

All of it runs on one asyncio event loop for each side, and no method may be called from another thread.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Generic, Self, TypeVar

from prism.errors import RunError

FAREWELL_S = 1.0
"""How long `close` waits for the other side; half of the two seconds in which an interrupted run has to be gone."""

T = TypeVar("T")


class ConnectionClosed(RunError):
    """One of the two sides has closed, or the connection between them broke; the text says which."""


class ConnectionRefused(RunError):
    """The listener did not admit this connection; the text says why."""


class IdentityTaken(ConnectionRefused):
    """The identity belongs to another live connection; one of another name may be admitted."""


class UnknownPeer(RunError):
    """A message was sent to a peer that never connected, or has ended."""

    def __init__(self, peer: str, connected: Iterable[str]) -> None:
        super().__init__(f"no peer {peer!r} is connected; connected are: {', '.join(connected) or 'none'}")


def refuse(identity: str, connected: Iterable[str], end: str | None) -> None:
    """Raise ConnectionRefused where a listener with these peers does not admit `identity`, or for its `end` nobody."""
    if end is not None:
        raise ConnectionRefused(end)
    if not identity:
        raise ConnectionRefused("an identity must not be empty")
    if identity in connected:
        raise IdentityTaken(f"the identity {identity!r} is taken by a live connection")


class Listener(ABC):
    """The coordinator's side; an async context manager that closes itself."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where to connect to."""

    @abstractmethod
    async def recv(self) -> tuple[str, bytes | None]:
        """The next message of any peer, or `(peer, None)` for its end; raises ConnectionClosed after `close`."""

    @abstractmethod
    def send(self, peer: str, data: bytes) -> None:
        """Queue a message; raises UnknownPeer, MessageTooLarge or, after `close`, ConnectionClosed."""

    @abstractmethod
    def drop(self, peer: str, reason: str) -> None:
        """End a peer and tell it why; what it said before is still received. One that has ended is left alone."""

    @abstractmethod
    async def close(self) -> None:
        """Say goodbye to all peers and free the address; a second call does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Connection(ABC):
    """A worker's side; an async context manager that closes itself."""

    @abstractmethod
    async def recv(self) -> bytes:
        """The next message of the listener; raises ConnectionClosed once either side has ended."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Queue a message; raises MessageTooLarge or, once either side has ended, ConnectionClosed."""

    @abstractmethod
    async def close(self) -> None:
        """Say goodbye to the listener; a second call does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Inbox(Generic[T]):
    """What has arrived and was not received yet, and why nothing more will."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._arrival = asyncio.Event()
        self._end: str | None = None

    @property
    def end(self) -> str | None:
        """Why nothing more arrives; None as long as it may."""
        return self._end

    def put(self, item: T) -> None:
        """Add what arrived; ignored after the end."""
        if self._end is None:
            self._items.append(item)
            self._arrival.set()

    def close(self, reason: str) -> None:
        """Nothing more arrives; the first reason counts."""
        self._end = self._end or reason
        self._arrival.set()

    async def get(self) -> T:
        """The oldest item; raises ConnectionClosed with the reason when none is left after the end."""
        while not self._items:
            if self._end is not None:
                raise ConnectionClosed(self._end)
            self._arrival.clear()
            await self._arrival.wait()
        return self._items.popleft()
