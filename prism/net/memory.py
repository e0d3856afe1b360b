"""The transport within one event loop, for tests and embedding: what is sent is in the other side's inbox at once."""

from __future__ import annotations

from prism.net.limits import MAX_MESSAGE, check_size
from prism.net.transport import (
    Connection,
    ConnectionClosed,
    Inbox,
    Listener,
    UnknownPeer,
    refuse,
)


class MemoryListener(Listener):
    """A listener that is reached by reference instead of by address."""

    def __init__(self, *, limit: int = MAX_MESSAGE) -> None:
        self.limit = limit
        self._peers: dict[str, MemoryConnection] = {}
        self._inbox: Inbox[tuple[str, bytes | None]] = Inbox()

    @property
    def address(self) -> str:
        return "memory"

    async def recv(self) -> tuple[str, bytes | None]:
        return await self._inbox.get()

    def send(self, peer: str, data: bytes) -> None:
        if self._inbox.end is not None:
            raise ConnectionClosed(self._inbox.end)
        check_size(data, self.limit)
        if peer not in self._peers:
            raise UnknownPeer(peer, self._peers)
        self._peers[peer].deliver(data)

    def drop(self, peer: str, reason: str) -> None:
        if peer in self._peers:
            self._peers[peer].end(reason)
            self.end(peer)

    async def close(self) -> None:
        self._inbox.close("this listener is closed")
        for peer in self._peers.values():
            peer.end("the listener closed the connection")
        self._peers.clear()

    def admit(self, identity: str, connection: MemoryConnection) -> None:
        """Take a connection in; raises ConnectionRefused."""
        refuse(identity, self._peers, self._inbox.end)
        self._peers[identity] = connection

    def deliver(self, identity: str, data: bytes) -> None:
        """A message of an admitted connection."""
        self._inbox.put((identity, data))

    def end(self, identity: str) -> None:
        """The end of an admitted connection."""
        del self._peers[identity]
        self._inbox.put((identity, None))


class MemoryConnection(Connection):
    """A connection to a MemoryListener; made by `connect`."""

    def __init__(self, listener: MemoryListener, identity: str) -> None:
        listener.admit(identity, self)
        self._listener = listener
        self._identity = identity
        self._inbox: Inbox[bytes] = Inbox()

    async def recv(self) -> bytes:
        return await self._inbox.get()

    def send(self, data: bytes) -> None:
        if self._inbox.end is not None:
            raise ConnectionClosed(self._inbox.end)
        check_size(data, self._listener.limit)
        self._listener.deliver(self._identity, data)

    async def close(self) -> None:
        ended = self._inbox.end is not None
        self._inbox.close("this connection is closed")
        if not ended:
            self._listener.end(self._identity)

    def deliver(self, data: bytes) -> None:
        """A message of the listener."""
        self._inbox.put(data)

    def end(self, reason: str) -> None:
        """The end of the listener."""
        self._inbox.close(reason)


async def connect(listener: MemoryListener, identity: str) -> Connection:
    """Connect to `listener` under a name; raises ConnectionRefused."""
    return MemoryConnection(listener, identity)
