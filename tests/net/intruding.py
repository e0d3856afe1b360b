"""Strangers that knock at a listener: without keys, with wrong ones, with garbage, with too much or too little."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace

import pytest
import zmq

from prism.net import zeromq
from prism.net.keys import WorkerKeys, make_keys
from prism.net.transport import ConnectionRefused
from prism.net.watch import Watch, events, open_socket, shut_socket

LIMIT = 1 << 16


@dataclass(frozen=True)
class Place:
    """Where to knock: an address, and the keys of its run, of which a stranger may know a part."""

    address: str
    keys: WorkerKeys


class Rogue:
    """A peer that follows no rule of ours."""

    def __init__(self, address: str, keys: WorkerKeys | None) -> None:
        self.answered, self.dropped = asyncio.Event(), asyncio.Event()
        self._socket = open_socket(zmq.DEALER, LIMIT)
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        if keys is not None:
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, keys.coordinator_public.encode())
        self._socket.connect(address)
        self._watch = Watch(self._socket, self._look)

    def say(self, *frames: bytes) -> None:
        with contextlib.suppress(zmq.Again):  # it may have been dropped already
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        self._watch.again()

    def close(self) -> None:
        self._watch.close()
        shut_socket(self._socket)

    def _look(self) -> None:
        possible = events(self._socket)
        if possible & zmq.POLLIN:
            self.answered.set()
        if not possible & zmq.POLLOUT:
            self.dropped.set()


async def without_curve(at: Place) -> None:
    with contextlib.closing(Rogue(at.address, None)) as rogue:
        rogue.say(zeromq.HELLO, b"intruder")
        rogue.say(b"evil")
        await rogue.dropped.wait()


async def with_another_worker_key(at: Place) -> None:
    stranger = replace(make_keys()[1], coordinator_public=at.keys.coordinator_public)
    with pytest.raises(ConnectionRefused):
        await zeromq.connect(at.address, "intruder", stranger)


async def with_another_coordinator_key(at: Place) -> None:
    stranger = replace(at.keys, coordinator_public=make_keys()[1].coordinator_public)
    with pytest.raises(ConnectionRefused):
        await zeromq.connect(at.address, "intruder", stranger)


async def with_garbage(at: Place) -> None:
    reader, writer = await raw(at)
    writer.write(b"GET / HTTP/1.1\r\n\r\n" * 100)
    with contextlib.suppress(ConnectionError):  # dropped with or without a reset, according to what was still unread
        while await reader.read(1024):
            pass
    await hang_up(writer)


async def raw(at: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = at.address.removeprefix("tcp://").split(":")
    return await asyncio.open_connection(host, int(port))


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def with_a_huge_message(at: Place) -> None:
    """A greeting as ZeroMQ's, and the header of a frame of a GiB."""
    _, writer = await raw(at)
    writer.write(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + b"\0" + bytes(31))
    writer.write(b"\x06" + (1 << 30).to_bytes(8, "big"))
    sent = 0  # MiB
    with contextlib.suppress(ConnectionError):
        while sent < 1 << 10 and not writer.is_closing():
            writer.write(bytes(1 << 20))
            await writer.drain()
            sent += 1
    assert sent < 1 << 8, "the connection is dropped long before that"
    await hang_up(writer)


async def slowly(at: Place) -> None:
    """A byte at a time, and never all of a greeting."""
    reader, writer = await raw(at)
    try:
        while not reader.at_eof():
            writer.write(b"\xff")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1024), 0.05)
    except ConnectionError:
        pass
    finally:
        await hang_up(writer)
