"""Bridges between hosts: a FIFO whose two ends are on two hosts is carried over a TCP connection of its own.

The sender's host dials the receiver's and says, in the first message, a token that both know and which FIFO it is. The
parties of the pruned collectives notice nothing: each meets the bridge in its own host's directory.
"""

from __future__ import annotations

import hmac
import socket
import threading
from pathlib import Path
from typing import Literal

import msgspec

from prism.gpu.pruned import abi

HELLO_TIMEOUT_S = 10.0
LONGEST_HELLO = 64 * 1024


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


class _Hello(msgspec.Struct, array_like=True, frozen=True):
    token: bytes
    link: Link


def dial(address: tuple[str, int], token: bytes, link: Link) -> socket.socket:
    """A connection to the receiver's host, which knows what comes on it. Raises OSError."""
    connection = socket.create_connection(address, timeout=HELLO_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    hello = msgspec.msgpack.encode(_Hello(token, link))
    connection.sendall(len(hello).to_bytes(4) + hello)
    return connection


def answer(connection: socket.socket, token: bytes) -> Link:
    """What will come on an accepted connection. Raises PermissionError if who dialled does not know the token."""
    connection.settimeout(HELLO_TIMEOUT_S)
    size = int.from_bytes(_exactly(connection, 4))
    if size > LONGEST_HELLO:
        raise PermissionError("who dialled does not speak as a bridge")
    try:
        hello = msgspec.msgpack.decode(_exactly(connection, size), type=_Hello)
    except msgspec.MsgspecError as error:
        raise PermissionError("who dialled does not speak as a bridge") from error
    if not hmac.compare_digest(hello.token, token):
        raise PermissionError("who dialled does not know the token")
    return hello.link


def _exactly(connection: socket.socket, nbytes: int) -> bytes:
    data = bytearray()
    while len(data) < nbytes:
        part = connection.recv(nbytes - len(data))
        if not part:
            raise PermissionError("who dialled hung up at once")
        data += part
    return bytes(data)


def carry(
    directory: str | Path, link: Link, connection: socket.socket, outwards: bool, stop: threading.Event | None = None
) -> None:
    """Carry the FIFO out of this host or into it, until the other side hangs up or `stop` is set.

    It closes the connection. Raises Aborted when the directory is aborted, PeerLost when the connection breaks.
    """
    connection.settimeout(None)
    with connection:
        bridge = abi.library.pruned_open_bridge(str(directory).encode(), link.c(), connection.fileno(), outwards)
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
