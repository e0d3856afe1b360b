"""Typed messages: what does not decode is dropped and logged once for each peer, another version is told both."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.net import memory
from prism.net.channel import Channel, Codec, Hub, Malformed, OtherVersion
from prism.net.transport import ConnectionClosed


class Ask(msgspec.Struct, tag=True, frozen=True):
    number: int


class Tell(msgspec.Struct, tag=True, frozen=True):
    text: str
    extra: tuple[str, ...] = ()


ASK = Codec[Ask, Ask | Tell](Ask)
ANY = Codec[Ask | Tell, Ask](Ask | Tell)


@pytest.fixture
async def listener(guard: None) -> AsyncIterator[memory.MemoryListener]:
    async with memory.MemoryListener() as listener:
        yield listener


async def test_messages_of_the_unions_go_both_ways(listener: memory.MemoryListener) -> None:
    hub, channel = Hub(listener, ANY), Channel(await memory.connect(listener, "worker-0"), ASK)
    channel.send(Tell("hi", ("there",)))
    channel.send(Ask(1))
    assert await hub.recv() == ("worker-0", Tell("hi", ("there",)))
    assert await hub.recv() == ("worker-0", Ask(1))
    hub.send("worker-0", Ask(2))
    assert await channel.recv() == Ask(2)
    await channel.close()
    assert await hub.recv() == ("worker-0", None)
    await hub.close()
    with pytest.raises(ConnectionClosed):
        await hub.recv()


async def test_a_coordinator_drops_what_does_not_decode(
    listener: memory.MemoryListener, caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub(listener, ANY)
    raw = await memory.connect(listener, "broken")
    channel = Channel(await memory.connect(listener, "worker-0"), ASK)
    for data in (b"", b"\0", b"\0\1", b"\0\1garbage", ANY.version_only + msgspec.msgpack.encode({"type": "Ask"})):
        raw.send(data)
    channel.send(Ask(1))
    assert await hub.recv() == ("worker-0", Ask(1))
    assert [message.split(":")[0] for message in caplog.messages] == ["broken"]


async def test_a_worker_drops_what_does_not_decode(
    listener: memory.MemoryListener, caplog: pytest.LogCaptureFixture
) -> None:
    channel = Channel(await memory.connect(listener, "worker-0"), ASK)
    for _ in range(2):
        listener.send("worker-0", ANY.encode(Ask(1)) + b"tail")
    Hub(listener, ANY).send("worker-0", Ask(2))
    assert await channel.recv() == Ask(2)
    assert [message.split(":")[0] for message in caplog.messages] == ["the coordinator"]


async def test_another_version_is_refused_and_told_both(
    listener: memory.MemoryListener, caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub(listener, ANY)
    old = Channel(await memory.connect(listener, "old"), Codec[Ask, Ask](Ask, version=0))
    new = Channel(await memory.connect(listener, "worker-0"), ASK)
    for _ in range(2):
        old.send(Ask(1))
    new.send(Ask(2))
    assert await hub.recv() == ("worker-0", Ask(2))
    with pytest.raises(OtherVersion, match="speaks version 1 of the protocol, this side version 0"):
        await old.recv()
    assert [message.split(";")[0] for message in caplog.messages] == [
        "old: the peer speaks version 0 of the protocol, this side version 1"
    ]


async def test_a_peer_of_another_version_may_be_gone_already(listener: memory.MemoryListener) -> None:
    hub = Hub(listener, ANY)
    async with await memory.connect(listener, "old") as raw:
        raw.send(b"\0\0")
    assert await hub.recv() == ("old", None)


@given(st.one_of(st.binary(), st.binary().map(ANY.version_only.__add__)))
def test_any_bytes_decode_or_are_a_protocol_error(data: bytes) -> None:
    try:
        message = ANY.decode(data)
    except (Malformed, OtherVersion):
        return
    assert isinstance(message, Ask | Tell)


def test_text_that_is_not_utf_8_is_malformed() -> None:
    data = ANY.encode(Ask(1)).replace(b"Ask", b"\xff\xff\xff")
    with pytest.raises(Malformed, match="does not decode"):
        ANY.decode(data)
