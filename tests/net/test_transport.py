"""What every transport promises (the top of prism/net/transport.py), asked of each implementation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from prism.net import memory, zeromq
from prism.net.keys import make_keys
from prism.net.limits import MessageTooLarge
from prism.net.transport import (
    Connection,
    ConnectionClosed,
    ConnectionRefused,
    IdentityTaken,
    Listener,
    UnknownPeer,
)

LIMIT = 8 << 20


@dataclass
class Net:
    """A listener, and the way to connect to it."""

    listener: Listener
    dial: Callable[[str], Awaitable[Connection]]
    stack: AsyncExitStack

    async def connect(self, identity: str) -> Connection:
        return await self.stack.enter_async_context(await self.dial(identity))


@pytest.fixture(params=["memory", "tcp", "ipc"])
async def net(request: pytest.FixtureRequest, tmp_path: Path, guard: None) -> AsyncIterator[Net]:
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            twin = await stack.enter_async_context(memory.MemoryListener(limit=LIMIT))
            yield Net(twin, lambda identity: memory.connect(twin, identity), stack)
        else:
            keys, worker_keys = make_keys()
            address = "tcp://127.0.0.1:*" if request.param == "tcp" else f"ipc://{tmp_path}/s"
            listener = await stack.enter_async_context(zeromq.ZmqListener(keys, address, limit=LIMIT))
            yield Net(
                listener,
                lambda identity: zeromq.connect(listener.address, identity, worker_keys, limit=LIMIT),
                stack,
            )


async def test_messages_arrive_in_order_both_ways(net: Net) -> None:
    messages = [b"%d" % number for number in range(10_000)]
    worker = await net.connect("worker-0")
    for message in messages:
        worker.send(message)
    assert [await net.listener.recv() for _ in messages] == [("worker-0", message) for message in messages]
    for message in messages:
        net.listener.send("worker-0", message)
    assert [await worker.recv() for _ in messages] == messages


async def test_two_peers_do_not_mix(net: Net) -> None:
    names = ["worker-0", "worker-1"]
    workers = {name: await net.connect(name) for name in names}
    for number in range(100):
        for name in names:
            workers[name].send(f"{name} {number}".encode())
    received: dict[str, list[bytes | None]] = {name: [] for name in names}
    for _ in range(200):
        peer, data = await net.listener.recv()
        received[peer].append(data)
    assert received == {name: [f"{name} {number}".encode() for number in range(100)] for name in names}
    for name in reversed(names):
        net.listener.send(name, f"for {name}".encode())
    for name in names:
        assert await workers[name].recv() == f"for {name}".encode()


async def test_messages_wait_for_their_receiver(net: Net) -> None:
    worker = await net.connect("worker-0")
    worker.send(b"early")
    net.listener.send("worker-0", b"early too")
    other = await net.connect("worker-1")  # has gone through both loops since
    other.send(b"late")
    assert sorted([await net.listener.recv(), await net.listener.recv()]) == [
        ("worker-0", b"early"),
        ("worker-1", b"late"),
    ]
    assert await worker.recv() == b"early too"


async def test_a_message_may_be_empty_or_as_large_as_the_limit(net: Net) -> None:
    worker = await net.connect("worker-0")
    for message in (b"", bytes(LIMIT)):
        worker.send(message)
        assert await net.listener.recv() == ("worker-0", message)
        net.listener.send("worker-0", message)
        assert await worker.recv() == message


async def test_a_message_above_the_limit_is_refused_where_it_is_sent(net: Net) -> None:
    worker = await net.connect("worker-0")
    with pytest.raises(MessageTooLarge, match=f"{LIMIT + 1} bytes exceeds the limit of {LIMIT}"):
        worker.send(bytes(LIMIT + 1))
    with pytest.raises(MessageTooLarge):
        net.listener.send("worker-0", bytes(LIMIT + 1))
    worker.send(b"still here")
    assert await net.listener.recv() == ("worker-0", b"still here")


async def test_an_unknown_peer_is_named_with_the_known_ones(net: Net) -> None:
    with pytest.raises(UnknownPeer, match="no peer 'worker-9' is connected; connected are: none"):
        net.listener.send("worker-9", b"x")
    await net.connect("worker-0")
    await net.connect("worker-1")
    with pytest.raises(UnknownPeer, match="connected are: worker-0, worker-1"):
        net.listener.send("worker-9", b"x")


async def test_a_taken_identity_is_refused_and_its_owner_left_alone(net: Net) -> None:
    worker = await net.connect("worker-0")
    with pytest.raises(IdentityTaken, match="the identity 'worker-0' is taken"):
        await net.connect("worker-0")
    worker.send(b"mine")
    assert await net.listener.recv() == ("worker-0", b"mine")
    net.listener.send("worker-0", b"yours")
    assert await worker.recv() == b"yours"


async def test_an_empty_identity_is_refused(net: Net) -> None:
    with pytest.raises(ConnectionRefused, match="an identity must not be empty"):
        await net.connect("")


async def test_the_listener_sees_a_worker_close_after_all_it_sent(net: Net) -> None:
    worker = await net.connect("worker-0")
    for number in range(1000):
        worker.send(b"%d" % number)
    await worker.close()
    assert [await net.listener.recv() for _ in range(1000)] == [("worker-0", b"%d" % n) for n in range(1000)]
    assert await net.listener.recv() == ("worker-0", None)
    with pytest.raises(UnknownPeer):
        net.listener.send("worker-0", b"x")


async def test_an_identity_is_free_after_its_end(net: Net) -> None:
    worker = await net.connect("worker-0")
    await worker.close()
    assert await net.listener.recv() == ("worker-0", None)
    again = await net.connect("worker-0")
    again.send(b"back")
    assert await net.listener.recv() == ("worker-0", b"back")
    net.listener.send("worker-0", b"welcome")
    assert await again.recv() == b"welcome"


async def test_a_worker_sees_the_listener_close_after_all_it_sent(net: Net) -> None:
    worker = await net.connect("worker-0")
    for number in range(1000):
        net.listener.send("worker-0", b"%d" % number)
    await net.listener.close()
    assert [await worker.recv() for _ in range(1000)] == [b"%d" % n for n in range(1000)]
    for _ in range(2):
        with pytest.raises(ConnectionClosed, match="the listener closed the connection"):
            await worker.recv()
    with pytest.raises(ConnectionClosed):
        worker.send(b"x")
    await worker.close()


async def test_what_arrived_before_ones_own_close_can_be_received(net: Net) -> None:
    worker = await net.connect("worker-0")
    worker.send(b"1")
    assert await net.listener.recv() == ("worker-0", b"1")
    net.listener.send("worker-0", b"2")
    assert await worker.recv() == b"2"
    await worker.close()
    await worker.close()
    with pytest.raises(ConnectionClosed, match="this connection is closed"):
        await worker.recv()
    with pytest.raises(ConnectionClosed, match="this connection is closed"):
        worker.send(b"x")
    await net.listener.close()
    await net.listener.close()
    assert await net.listener.recv() == ("worker-0", None)
    with pytest.raises(ConnectionClosed, match="this listener is closed"):
        await net.listener.recv()
    with pytest.raises(ConnectionClosed, match="this listener is closed"):
        net.listener.send("worker-0", b"x")


async def test_a_peer_that_is_dropped_is_told_why_and_its_identity_is_free(net: Net) -> None:
    worker = await net.connect("worker-0")
    worker.send(b"before")
    assert await net.listener.recv() == ("worker-0", b"before")
    net.listener.drop("worker-0", "enough of it")
    net.listener.drop("worker-0", "it is gone already")
    assert await net.listener.recv() == ("worker-0", None)
    with pytest.raises(ConnectionClosed, match="enough of it"):
        await worker.recv()
    with pytest.raises(ConnectionClosed, match="enough of it"):
        worker.send(b"after")
    again = await net.connect("worker-0")
    again.send(b"back")
    assert await net.listener.recv() == ("worker-0", b"back")


async def test_close_wakes_a_waiting_receiver(net: Net) -> None:
    worker = await net.connect("worker-0")
    waiting = asyncio.ensure_future(worker.recv())
    listening = asyncio.ensure_future(net.listener.recv())
    await worker.close()
    assert await listening == ("worker-0", None)
    with pytest.raises(ConnectionClosed):
        await waiting


async def test_both_sides_may_close_at_once(net: Net) -> None:
    workers = [await net.connect(f"worker-{number}") for number in range(3)]
    await asyncio.gather(net.listener.close(), *(worker.close() for worker in workers))
    for worker in workers:
        with pytest.raises(ConnectionClosed):
            await worker.recv()
