"""Peers that should not be there, and peers that vanish: none of them is received, and none changes anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace

import pytest
import zmq

from prism.net import zeromq
from prism.net.keys import WorkerKeys, make_keys
from prism.net.transport import Connection, ConnectionClosed, ConnectionRefused, UnknownPeer
from prism.net.watch import Watch, events, open_socket, shut_socket

LIMIT = 1 << 16


@dataclass
class Net:
    """A listener with one worker that belongs there."""

    listener: zeromq.ZmqListener
    worker: Connection
    keys: WorkerKeys

    async def lose_a_worker(self) -> None:
        """Connect and vanish. Ends are told in order, so the listener has then dealt with everyone before."""
        doomed = await zeromq.connect(self.listener.address, "doomed", self.keys)
        assert isinstance(doomed, zeromq.ZmqConnection)
        doomed.release()
        assert await self.listener.recv() == ("doomed", None)

    async def check_unharmed(self) -> None:
        self.worker.send(b"ping")
        assert await self.listener.recv() == ("worker-0", b"ping")
        self.listener.send("worker-0", b"pong")
        assert await self.worker.recv() == b"pong"


@pytest.fixture
async def net(guard: None) -> AsyncIterator[Net]:
    keys, worker_keys = make_keys()
    async with (
        zeromq.ZmqListener(keys, limit=LIMIT) as listener,
        await zeromq.connect(listener.address, "worker-0", worker_keys) as worker,
    ):
        yield Net(listener, worker, worker_keys)


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


async def without_curve(net: Net) -> None:
    with contextlib.closing(Rogue(net.listener.address, None)) as rogue:
        rogue.say(zeromq.HELLO, b"intruder")
        rogue.say(b"evil")
        await rogue.dropped.wait()


async def with_another_worker_key(net: Net) -> None:
    stranger = replace(make_keys()[1], coordinator_public=net.keys.coordinator_public)
    with pytest.raises(ConnectionRefused):
        await zeromq.connect(net.listener.address, "intruder", stranger)


async def with_another_coordinator_key(net: Net) -> None:
    stranger = replace(net.keys, coordinator_public=make_keys()[1].coordinator_public)
    with pytest.raises(ConnectionRefused):
        await zeromq.connect(net.listener.address, "intruder", stranger)


async def with_garbage(net: Net) -> None:
    host, port = net.listener.address.removeprefix("tcp://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/1.1\r\n\r\n" * 100)
    with contextlib.suppress(ConnectionError):  # dropped with or without a reset, according to what was still unread
        while await reader.read(1024):
            pass
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def with_a_message_before_its_name(net: Net) -> None:
    with contextlib.closing(Rogue(net.listener.address, net.keys)) as rogue:
        rogue.say(b"evil")
        rogue.say(zeromq.HELLO, b"latecomer")
        await rogue.answered.wait()
    assert await net.listener.recv() == ("latecomer", None)


@pytest.mark.parametrize(
    ("intrude", "complaint"),
    [
        (without_curve, "unauthenticated peers at tcp://127.0.0.1:"),
        (with_another_worker_key, "127.0.0.1: refused a peer whose key is not of this run"),
        (with_another_coordinator_key, "unauthenticated peers at tcp://127.0.0.1:"),
        (with_garbage, "unauthenticated peers at tcp://127.0.0.1:"),
        (with_a_message_before_its_name, "dropped a message of a peer that was not admitted"),
    ],
    ids=["no-curve", "worker-key", "coordinator-key", "garbage", "no-name"],
)
async def test_an_intruder_changes_nothing_and_is_logged_once(
    net: Net, caplog: pytest.LogCaptureFixture, intrude: Callable[[Net], Awaitable[None]], complaint: str
) -> None:
    await intrude(net)
    await net.check_unharmed()
    await intrude(net)
    await net.lose_a_worker()
    await net.check_unharmed()
    with pytest.raises(UnknownPeer, match=r"connected are: worker-0$"):
        net.listener.send("intruder", b"x")
    assert len(caplog.messages) == 1
    assert complaint in caplog.messages[0]


async def test_two_kinds_of_intruders_are_two_sources(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    await with_another_worker_key(net)
    await without_curve(net)
    await net.lose_a_worker()
    assert len(caplog.messages) == 2


async def test_a_peer_that_ignores_the_limit_is_dropped(net: Net) -> None:
    async with await zeromq.connect(net.listener.address, "flooder", net.keys, limit=LIMIT * 4) as flooder:
        flooder.send(b"fine")
        flooder.send(bytes(LIMIT * 2))
        assert await net.listener.recv() == ("flooder", b"fine")
        assert await net.listener.recv() == ("flooder", None)
        with pytest.raises(ConnectionClosed, match="the connection to the coordinator broke"):
            await flooder.recv()
    await net.check_unharmed()


async def test_a_lost_worker_frees_its_identity(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):  # each time over the file descriptor of the one before
        await net.lose_a_worker()
    await net.check_unharmed()
    assert caplog.messages == []


async def test_a_lost_coordinator_ends_its_workers(guard: None) -> None:
    keys, worker_keys = make_keys()
    listener = zeromq.ZmqListener(keys)
    async with await zeromq.connect(listener.address, "worker-0", worker_keys) as worker:
        listener.release()
        with pytest.raises(ConnectionClosed, match="the connection to the coordinator broke"):
            await worker.recv()
        with pytest.raises(ConnectionClosed):
            worker.send(b"x")


async def test_a_peer_that_does_not_answer_cannot_hold_up_close(guard: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "FAREWELL_S", 0.0)
    keys, worker_keys = make_keys()
    listener = zeromq.ZmqListener(keys)
    with contextlib.closing(Rogue(listener.address, worker_keys)) as rogue:
        rogue.say(zeromq.HELLO, b"deaf")
        await rogue.answered.wait()
        await listener.close()
        await rogue.dropped.wait()
