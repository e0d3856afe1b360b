"""Peers that should not be there, and peers that vanish: none of them is received, and none changes anything."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from prism.net import gate, zeromq
from prism.net.keys import WorkerKeys, make_keys
from prism.net.transport import Connection, ConnectionClosed, UnknownPeer
from tests.net.intruding import (
    LIMIT,
    Place,
    Rogue,
    hang_up,
    raw,
    slowly,
    with_a_huge_message,
    with_another_coordinator_key,
    with_another_worker_key,
    with_garbage,
    without_curve,
)


@dataclass
class Net:
    """A listener with one worker that belongs there."""

    listener: zeromq.ZmqListener
    worker: Connection
    keys: WorkerKeys

    @property
    def address(self) -> str:
        return self.listener.address

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
async def net(guard: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Net]:
    monkeypatch.setattr(gate, "HANDSHAKE_S", 0.2)
    keys, worker_keys = make_keys()
    async with (
        zeromq.ZmqListener(keys, limit=LIMIT) as listener,
        await zeromq.connect(listener.address, "worker-0", worker_keys) as worker,
    ):
        yield Net(listener, worker, worker_keys)


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
        (with_a_huge_message, "unauthenticated peers at tcp://127.0.0.1:"),
        (slowly, "unauthenticated peers at tcp://127.0.0.1:"),
        (with_a_message_before_its_name, "dropped a message of a peer that was not admitted"),
    ],
    ids=["no-curve", "worker-key", "coordinator-key", "garbage", "huge", "slow", "no-name"],
)
async def test_an_intruder_changes_nothing_and_is_logged_once(
    net: Net, caplog: pytest.LogCaptureFixture, intrude: Callable[[Place | Net], Awaitable[None]], complaint: str
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


async def test_so_many_strangers_that_files_run_out_are_not_let_in(
    net: Net, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "MAX_UNNAMED", 3)
    strangers = [await raw(net) for _ in range(20)]
    for reader, _ in strangers[:-3]:
        assert await reader.read() is not None  # until they are dropped
    await net.lose_a_worker()
    await net.check_unharmed()
    for _, writer in strangers:
        await hang_up(writer)
    assert len(caplog.messages) == 1


async def test_a_worker_that_says_more_than_anybody_hears_is_dropped(
    net: Net, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zeromq, "MAX_UNREAD", 10_000)
    async with await zeromq.connect(net.listener.address, "flooder", net.keys) as flooder:
        for _ in range(11):
            flooder.send(bytes(1000))
        with pytest.raises(ConnectionClosed, match="more than 10000 bytes that nobody has heard yet"):
            await flooder.recv()
        heard = [await net.listener.recv() for _ in range(11)]
    assert heard == [("flooder", bytes(1000))] * 10 + [("flooder", None)]
    assert [message.split(":")[0] for message in caplog.messages] == ["flooder"]
    await net.check_unharmed()


async def test_what_is_heard_makes_room_again(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "MAX_UNREAD", 3000)
    for _ in range(20):
        net.worker.send(bytes(1000))
        assert await net.listener.recv() == ("worker-0", bytes(1000))


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
