"""Typed messages: a peer whose messages do not decode has ended, one of another version is told so, on both sides."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.net import memory, numbered
from prism.net.channel import VERSION, Channel, Codec, Hub
from prism.net.limits import MessageTooLarge
from prism.net.numbered import Malformed, OtherVersion
from prism.net.transport import ConnectionClosed


class Ask(msgspec.Struct, tag=True, frozen=True):
    number: int


class Tell(msgspec.Struct, tag=True, frozen=True):
    text: str
    extra: tuple[str, ...] = ()


ASK = Codec[Ask, Ask | Tell](Ask)
ANY = Codec[Ask | Tell, Ask](Ask | Tell)


def part(body: bytes, number: int = 0, more: bool = False) -> bytes:
    """A part of a message as it goes over the wire."""
    return VERSION.to_bytes(2, "big") + number.to_bytes(8, "big") + bytes([more]) + body


ASKED = msgspec.msgpack.encode(Ask(1))


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


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        part(b"")[:5],
        part(b"garbage"),
        part(ASKED + b"tail"),
        part(msgspec.msgpack.encode({"type": "Ask"})),
        part(ASKED, number=1),
        part(ASKED.replace(b"Ask", b"\xff\xff\xff")),
    ],
    ids=["empty", "short", "no-header", "garbage", "tail", "no-field", "not-the-next", "no-utf-8"],
)
async def test_what_does_not_decode_ends_its_peer_and_no_other(
    listener: memory.MemoryListener, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    hub = Hub(listener, ANY)
    raw = await memory.connect(listener, "broken")
    channel = Channel(await memory.connect(listener, "worker-0"), ASK)
    raw.send(data)
    raw.send(part(ASKED))
    channel.send(Ask(1))
    assert sorted([await hub.recv(), await hub.recv()], key=str) == [("broken", None), ("worker-0", Ask(1))]
    assert hub.fault("broken")
    assert [message.split(":")[0] for message in caplog.messages] == ["broken"]
    with pytest.raises(ConnectionClosed, match=re.escape(hub.fault("broken"))):
        await raw.recv()
    again = Channel(await memory.connect(listener, "broken"), ASK)
    again.send(Ask(2))
    assert await hub.recv() == ("broken", Ask(2))


async def test_a_worker_does_not_go_on_after_what_does_not_decode(listener: memory.MemoryListener) -> None:
    channel = Channel(await memory.connect(listener, "worker-0"), ASK)
    listener.send("worker-0", part(ASKED + b"tail"))
    with pytest.raises(Malformed, match="does not decode"):
        await channel.recv()


async def test_a_long_message_goes_in_parts_between_which_others_are_heard(
    listener: memory.MemoryListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbered, "MAX_PART", 8)
    hub = Hub(listener, ANY)
    long = Channel(await memory.connect(listener, "long"), ASK)
    short = Channel(await memory.connect(listener, "short"), ASK)
    parts = list(long._outgoing.parts(Tell("x" * 40)))
    assert len(parts) > 5
    for one in parts[:-1]:
        listener.deliver("long", one)
    short.send(Ask(1))
    listener.deliver("long", parts[-1])
    assert await hub.recv() == ("short", Ask(1))
    assert await hub.recv() == ("long", Tell("x" * 40))
    hub.send("long", Ask(1 << 40))
    assert await long.recv() == Ask(1 << 40)


async def test_a_message_without_an_end_is_refused(
    listener: memory.MemoryListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbered, "MAX_WHOLE", 100)
    hub = Hub(listener, ANY)
    raw = await memory.connect(listener, "endless")
    for number in range(10):
        raw.send(part(b"x" * 30, number, more=True))
    assert await hub.recv() == ("endless", None)
    assert hub.fault("endless") == "a message has more than 100 bytes"
    with pytest.raises(MessageTooLarge, match="exceeds the limit of 100"):
        hub.send("nobody", Tell("x" * 200))  # type: ignore[arg-type]


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
    with pytest.raises(OtherVersion, match="speaks version 2 of the protocol, this side version 0"):
        await old.recv()
    assert [message.split(";")[0] for message in caplog.messages] == [
        "old: the peer speaks version 0 of the protocol, this side version 2"
    ]


async def test_a_peer_of_another_version_may_be_gone_already(listener: memory.MemoryListener) -> None:
    hub = Hub(listener, ANY)
    async with await memory.connect(listener, "old") as raw:
        raw.send(b"\0\0")
    assert await hub.recv() == ("old", None)


@given(st.one_of(st.binary(), st.binary().map(part)))
def test_any_bytes_decode_or_are_a_protocol_error(data: bytes) -> None:
    try:
        message = ANY.incoming().take(data)
    except (Malformed, OtherVersion):
        return
    assert isinstance(message, Ask | Tell)
