"""Pulling from another host's ferry: one that sends what was not asked for is told of, and nothing of it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from prism.core.calls import Ref
from prism.errors import PrismError
from prism.net import memory
from prism.net.channel import Channel, Codec
from prism.net.numbered import Incoming, Outgoing
from prism.net.payloads import CHUNK
from prism.net.peer import Chunk, Fetch, Missing, NotThere, Peer
from prism.net.transport import ConnectionClosed

PAYLOAD = Ref("b.s1-0-input", 64, CHUNK + 5)


class Ferry:
    """The other side, which answers each Fetch with what `answer` gives: bytes that go as they are, or a message."""

    def __init__(self, answer: Callable[[Fetch], Chunk | Missing | bytes]) -> None:
        self._answer = answer
        self._listener = memory.MemoryListener()
        codec = Codec[Fetch, Chunk | Missing](Fetch)
        self._asked: Incoming[Fetch] = codec.incoming()
        self._answers: Outgoing[Chunk | Missing] = codec.outgoing()

    async def serve(self) -> None:
        while True:
            peer, part = await self._listener.recv()
            wanted = self._asked.take(part) if part is not None else None
            if wanted is None:
                return
            answer = self._answer(wanted)
            for one in [answer] if isinstance(answer, bytes) else self._answers.parts(answer):
                self._listener.send(peer, one)

    async def pull(self) -> dict[int, bytes]:
        """What is written of the payload."""
        serving = asyncio.ensure_future(self.serve())
        written: dict[int, bytes] = {}
        peer = Peer("b", Channel(await memory.connect(self._listener, "a"), Codec(Chunk | Missing)))
        try:
            await peer.pull(PAYLOAD, written.__setitem__)
            return written
        finally:
            self.written, self.peer = written, peer
            await peer.close()
            await serving


async def test_every_chunk_is_asked_for_and_written_where_it_belongs(guard: None) -> None:
    asked: list[Ref] = []

    def answer(wanted: Fetch) -> Chunk:
        asked.append(wanted.payload)
        return Chunk(wanted.number, bytes(wanted.payload.nbytes))

    assert await Ferry(answer).pull() == {0: bytes(CHUNK), CHUNK: bytes(5)}
    assert asked == [Ref(PAYLOAD.file, 64, CHUNK), Ref(PAYLOAD.file, 64 + CHUNK, 5)]


@pytest.mark.parametrize("by", [-1, 1, CHUNK])
async def test_a_chunk_of_another_size_is_not_written(by: int, guard: None) -> None:
    ferry = Ferry(lambda wanted: Chunk(wanted.number, bytes(wanted.payload.nbytes + by)))
    with pytest.raises(NotThere, match=f"b: {CHUNK} bytes were asked for, and {CHUNK + by} came"):
        await ferry.pull()
    assert ferry.written == {}


@pytest.mark.parametrize("said", [b"", b"garbage", msgspec.msgpack.encode({"type": "Chunk"})])
async def test_what_is_no_message_ends_all_pulls(said: bytes, guard: None) -> None:
    ferry = Ferry(lambda _: said)
    with pytest.raises(ConnectionClosed, match="b does not send payloads any more: "):
        await ferry.pull()
    assert ferry.written == {}


async def test_an_answer_that_nobody_asked_for_changes_nothing(guard: None) -> None:
    def answer(wanted: Fetch) -> Chunk | Missing:
        return Missing(wanted.number, "gone") if wanted.number == 2 else Chunk(wanted.number + 77, b"x")

    ferry = Ferry(answer)
    with pytest.raises(NotThere, match="b: gone"):
        await ferry.pull()
    assert ferry.written == {}


async def test_a_peer_that_was_garbled_is_not_asked_again(guard: None) -> None:
    ferry = Ferry(lambda _: b"garbage")
    listener = ferry._listener
    serving = asyncio.ensure_future(ferry.serve())
    peer = Peer("b", Channel(await memory.connect(listener, "a"), Codec(Chunk | Missing)))
    for _ in range(2):
        with pytest.raises(PrismError, match="b does not send payloads any more: "):
            await peer.pull(PAYLOAD, lambda at, data: None)
    await peer.close()
    await serving
