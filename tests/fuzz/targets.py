"""What is fuzzed: each target takes any bytes, and raises only what it promises to raise for wrong ones."""

from __future__ import annotations

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
    from prism.core.events import AnyEvent
    from prism.core.graph import InvalidGraph
    from prism.core.instructions import AnyInstruction
    from prism.core.timeline.replay import make_plan
    from prism.errors import ProtocolError, RunError, ScenarioError
    from prism.gpu.processes.birth import Birth, FromZygote, Introduction
    from prism.net.channel import Codec
    from prism.net.frames import Unpacker
    from prism.net.keys import WorkerKeys
    from prism.net.messages import FromCoordinator, FromWorker
    from prism.scenario import Scenario

FOLDER = Path(tempfile.mkdtemp())
"""Where inputs lie that are read from files; who starts a target takes it away."""
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


def planted(data: bytes) -> None:
    """No target of PRISM: breaks its promise, which has to be found out."""
    if data[:1] == b"P":
        raise AssertionError("planted")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "messages": messages,
    "traces": traces,
    "scenarios": scenarios,
    "planted": planted,
}
