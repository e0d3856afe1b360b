"""Bridges between hosts: a FIFO whose two ends are on two hosts is carried over a TCP connection of its own.

The sender's host dials the receiver's and says which FIFO it is. Each side proves that it knows a token of the
emulation, by an HMAC of what both have said, random bytes of either with it; the token itself is not said. What follows
is sealed (prism.gpu.pruned.seal) with a key that is such an HMAC too. The parties of the pruned collectives notice
nothing: each meets the bridge in its own host's directory.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from prism.gpu.pruned import abi
from prism.gpu.pruned.seal import for_engine

HELLO_TIMEOUT_S = 10.0
LONGEST_HELLO = 4096
_CHALLENGE, _PROOF, _SIZE = 32, 32, 4  # bytes


class Party(msgspec.Struct, array_like=True, frozen=True):
    """Who is at an end: the member of this rank, the arc after it, its peers, or its branches."""

    role: Literal["member", "arc", "peers", "branches"]
    rank: int


class Edge(msgspec.Struct, array_like=True, frozen=True):
    """The edge of a tree (0 or 1) above a member, in one direction."""

    tree: int
    child: int
    up: bool


class Link(msgspec.Struct, array_like=True, frozen=True):
    """The FIFO of a group from one party to another, or, without parties, the pipe of this name.

    Parties that meet along trees have a FIFO for each `edge` between them.
    """

    name: str
    sender: Party | None = None
    receiver: Party | None = None
    edge: Edge | None = None

    def c(self) -> abi.Link:
        """As the engine takes it."""
        if self.sender is None or self.receiver is None:
            return abi.Link(self.name.encode(), is_pipe=1)
        ends = [(ord(party.role[0]), party.rank) for party in (self.sender, self.receiver)]
        edge = (0, 0, 0, 0) if self.edge is None else (1, self.edge.tree, self.edge.child, self.edge.up)
        return abi.Link(self.name.encode(), 0, *ends[0], *ends[1], *edge)


class Line(NamedTuple):
    """A connection whose two ends have proved that they know the token, and the key of what goes on it."""

    connection: socket.socket
    key: bytes


def dial(address: tuple[str, int], token: bytes, link: Link, timeout_s: float = HELLO_TIMEOUT_S) -> Line:
    """A connection to the receiver's host, which knows what comes on it.

    Raises OSError, and PermissionError if who answers does not know the token.
    """
    connection = socket.create_connection(address, timeout=timeout_s)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        deadline = time.monotonic() + timeout_s
        challenge = _exactly(connection, _CHALLENGE, deadline)
        hello = secrets.token_bytes(_CHALLENGE) + msgspec.msgpack.encode(link)
        said = challenge + hello
        connection.sendall(len(hello).to_bytes(_SIZE) + hello + _proof(token, b"dials", said))
        if not hmac.compare_digest(_exactly(connection, _PROOF, deadline), _proof(token, b"answers", said)):
            raise PermissionError("who answered does not know the token")
    except BaseException:
        connection.close()
        raise
    connection.settimeout(None)
    return Line(connection, _proof(token, b"seals", said))


def answer(connection: socket.socket, token: bytes) -> tuple[Link, Line]:
    """What will come on an accepted connection. Raises OSError, PermissionError if who dialled does not know the token.

    Until then nothing of what it said is looked at.
    """
    deadline = time.monotonic() + HELLO_TIMEOUT_S
    challenge = secrets.token_bytes(_CHALLENGE)
    connection.settimeout(HELLO_TIMEOUT_S)
    connection.sendall(challenge)
    size = int.from_bytes(_exactly(connection, _SIZE, deadline))
    if not _CHALLENGE <= size <= LONGEST_HELLO:
        raise PermissionError("who dialled does not speak as a bridge")
    hello = _exactly(connection, size, deadline)
    said = challenge + hello
    if not hmac.compare_digest(_exactly(connection, _PROOF, deadline), _proof(token, b"dials", said)):
        raise PermissionError("who dialled does not know the token")
    connection.sendall(_proof(token, b"answers", said))
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link = msgspec.msgpack.decode(hello[_CHALLENGE:], type=Link)
    return link, Line(connection, _proof(token, b"seals", said))


def _proof(token: bytes, word: bytes, said: bytes) -> bytes:
    """What only who knows the token can make of what was said; another for each word."""
    return hmac.digest(token, word + said, "sha256")


def _exactly(connection: socket.socket, nbytes: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < nbytes:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connection.recv(nbytes - len(data))
        if not part:
            raise PermissionError("who is at the other end hung up at once")
        data += part
    return bytes(data)


def carry(directory: str | Path, link: Link, line: Line, outwards: bool, stop: threading.Event | None = None) -> None:
    """Carry the FIFO out of this host or into it, until the other side hangs up or `stop` is set.

    It closes the connection. Raises Aborted when the directory is aborted, PeerLost when the connection breaks, and
    Mismatch when something comes that the other side has not sealed.
    """
    with line.connection as connection:
        sealed = for_engine(line.key)
        bridge = abi.library.pruned_open_bridge(
            str(directory).encode(), link.c(), sealed, connection.fileno(), outwards
        )
        if bridge is None:
            raise ValueError(abi.library.pruned_error().decode())
        connection.detach()  # it is the bridge's now
    try:
        while (status := abi.library.pruned_turn_bridge(bridge)) == abi.PENDING:
            if stop is not None and stop.is_set():
                return
        abi.check(status)
    finally:
        abi.library.pruned_close_bridge(bridge)
