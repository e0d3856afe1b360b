"""What is fuzzed: each target takes any bytes, and raises only what it promises to raise for wrong ones."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["prism"]):
    from prism import trace
    from prism.core import prismtrace
    from prism.core.calls import Ref
    from prism.core.events import AnyEvent, Pressed
    from prism.core.graph import InvalidGraph
    from prism.core.instructions import AnyInstruction
    from prism.core.timeline.replay import make_plan
    from prism.errors import ProtocolError, RunError, ScenarioError
    from prism.gpu.processes.birth import Birth, FromZygote, Introduction
    from prism.gpu.processes.room import Rooms
    from prism.net import memory
    from prism.net.channel import Channel, Codec
    from prism.net.ferry import answer
    from prism.net.frames import Unpacker
    from prism.net.keys import WorkerKeys
    from prism.net.messages import FromCoordinator, FromWorker
    from prism.net.payloads import Library
    from prism.net.peer import Chunk, Fetch, Missing, Peer
    from prism.scenario import Scenario

FOLDER = Path(tempfile.mkdtemp())
"""Where inputs lie that are read from files; who starts a target takes it away."""
STORED = bytes(range(100))
"""The bytes of the one payload file that there is."""
STORE = FOLDER / "payloads"
STORE.mkdir()
(STORE / "w.s1-0-input").write_bytes(STORED)
(FOLDER / "private").write_bytes(b"nobody else's")
RANKS = range(8)
LOOP = asyncio.new_event_loop()
FEW_RANKS = 10_000
"""Worlds up to which a scenario is worth taking apart."""

CODECS = (Codec[Any, Any](FromWorker), Codec[Any, Any](FromCoordinator))
UNIONS: tuple[Callable[[bytes], Any], ...] = (
    *(lambda data, codec=codec: codec.incoming().take(data) for codec in CODECS),
    *(
        lambda data, union=union: list(Unpacker(union).feed(data))
        for union in (AnyEvent | Introduction, AnyInstruction, FromZygote, Birth)
    ),
)


def messages(data: bytes) -> None:
    """Whatever goes between coordinator, workers, fork server and ranks; and the file of a run's keys."""
    which, rest = data[:1], data[1:]
    if not which:
        return
    if which[0] % 8 == 7:
        keys(rest)
        return
    try:
        UNIONS[which[0] % len(UNIONS)](rest)
    except ProtocolError:
        return


def keys(data: bytes) -> None:
    """The key file."""
    path = FOLDER / "worker.keys"
    path.write_bytes(data)
    path.chmod(0o600)
    try:
        WorkerKeys.load(path)
    except RunError:
        return


def traces(data: bytes) -> None:
    """A PrismTrace, and what is done with one that is whole; most inputs get checksums that fit, else none is."""
    whole = data if data[:1] == b"\0" else b"".join(_with_checksums(data))
    try:
        found = prismtrace.decode(whole)
    except prismtrace.CorruptTrace:
        return
    list(trace.summary(found))
    try:
        make_plan(found.graph)
    except InvalidGraph:
        return


def _with_checksums(data: bytes) -> Iterator[bytes]:
    """The chunks of a trace as they are, but for checksums, which are made to fit."""
    yield data[: prismtrace.PREFIX.size]
    at = prismtrace.PREFIX.size
    while at + prismtrace.CHUNK.size <= len(data):
        row, width, length, _ = prismtrace.CHUNK.unpack_from(data, at)
        at += prismtrace.CHUNK.size
        payload = data[at : at + length]
        checksum = zlib.crc32(payload, zlib.crc32(struct.pack("<BBI", row, width, len(payload))))
        yield prismtrace.CHUNK.pack(row, width, len(payload), checksum) + payload
        at += length
    yield data[at:]


def scenarios(data: bytes) -> None:
    """A scenario file, and what is made of one that is right; before a NUL, an override."""
    override, separator, text = data.rpartition(b"\0")
    path = FOLDER / "scenario.yaml"
    path.write_bytes(text)
    try:
        scenario = Scenario.load(path, [override.decode()] if separator else [])
    except (ScenarioError, UnicodeDecodeError):
        return
    scenario.digest()
    if scenario.world.size <= FEW_RANKS:
        scenario.slices()


def ferries(data: bytes) -> None:
    """What ferries say to each other: what one asks for (0 first), and what the other answers to that."""
    which, rest = data[:1], data[1:]
    if which == b"\0":
        fetch(rest)
    else:
        LOOP.run_until_complete(pull(rest))


def fetch(data: bytes) -> None:
    """A wish: no more is sent than was asked for, and only of files of the payload store."""
    try:
        wanted = Codec[Fetch, Any](Fetch).incoming().take(data)
    except ProtocolError:
        return
    if wanted is None:
        return
    library = Library(STORE)
    sent = answer(wanted, library)
    library.close()
    if isinstance(sent, Chunk):
        assert len(sent.data) == wanted.payload.nbytes
        assert sent.data in STORED


async def pull(data: bytes) -> None:
    """An answer to a wish, and then the end: nothing is written beside the payload's room, and nobody waits on."""
    listener, written = memory.MemoryListener(), dict[int, bytes]()
    peer = Peer("w", Channel(await memory.connect(listener, "mine"), Codec(Chunk | Missing)))
    pulling = asyncio.ensure_future(peer.pull(Ref("w.s1-0-input", 8, len(STORED)), written.__setitem__))
    await listener.recv()
    listener.send("mine", data)
    await listener.close()
    with contextlib.suppress(RunError):
        await pulling
    await peer.close()
    assert all(at == 0 and len(one) == len(STORED) for at, one in written.items())


def rooms(data: bytes) -> None:
    """What ranks say on the room's socket, in pieces of as many bytes as the first says: the same as whole."""
    piece, rest = data[:1], data[1:]
    if not piece or not piece[0]:
        return
    whole = pressed([rest])
    assert pressed([rest[at : at + piece[0]] for at in range(0, len(rest), piece[0])]) == whole
    assert all(event.rank in RANKS for event in whole)


def pressed(pieces: list[bytes]) -> list[Pressed]:
    """What is asked in these pieces, until the worker hangs up."""
    heard: list[Pressed] = []
    line, way = Rooms(heard.append, RANKS.__contains__).line(), Way()
    line.connection_made(way)
    for piece in pieces:
        if not way.closed:
            line.data_received(piece)  # type: ignore[attr-defined]
    return heard


class Way(asyncio.Transport):
    """A connection that can be closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


def planted(data: bytes) -> None:
    """No target of PRISM: breaks its promise, which has to be found out."""
    if data[:1] == b"P":
        raise AssertionError("planted")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "messages": messages,
    "traces": traces,
    "scenarios": scenarios,
    "ferries": ferries,
    "rooms": rooms,
    "planted": planted,
}
