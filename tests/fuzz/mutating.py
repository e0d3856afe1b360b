"""Mutations that know the form of what they change, so that most inputs get past the first check.

msgspec is no Python, so atheris does not see how far a message gets in it: values are changed where they stand in the
decoded message instead. In a trace whole chunks are, and the values in them.
"""

from __future__ import annotations

import random
from typing import Any

import atheris
import msgspec

from prism.core.prismtrace import CHUNK, PREFIX

SCALARS: tuple[Any, ...] = (
    None, True, 0, 1, -1, 7, 255, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 1.5, float("nan"),
    float("inf"), "", "x", "\0", "../x", "capture", b"", b"\xff", [], {}, [[]], {"type": "Run"},
)  # fmt: skip
ANYHOW = 0.3
"""How many mutations are those of any bytes."""
FRAME = 4
"""Bytes before a message in a frame."""
PART = 11
"""Bytes before a message in a part that goes over the network."""


def message(data: bytes, most: int, seed: int) -> bytes:
    """One value of the first message, changed; `data` is as tests.fuzz.targets.messages wants it."""
    chance = random.Random(seed)
    before = PART if data[:1] and data[0] < 2 else FRAME
    try:
        tree = msgspec.msgpack.decode(data[1 + before :])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return bytes(atheris.Mutate(data, most))
    if chance.random() < ANYHOW:
        return bytes(atheris.Mutate(data, most))
    body = msgspec.msgpack.encode(_changed(tree, chance))
    header = data[1 : 1 + before] if before == PART else len(body).to_bytes(FRAME, "little")
    return (data[:1] + header + body)[:most]


def _changed(tree: Any, chance: random.Random) -> Any:
    """The tree with one of its values another."""
    if not isinstance(tree, dict | list) or not tree or chance.random() < 0.1:
        return chance.choice(SCALARS)
    if isinstance(tree, list):
        at = chance.randrange(len(tree))
        if chance.random() < 0.2:
            return tree[:at] + tree[at:] * chance.randrange(3)
        return [*tree[:at], _changed(tree[at], chance), *tree[at + 1 :]]
    key = chance.choice(sorted(tree, key=str))
    if chance.random() < 0.1:
        return {name: value for name, value in tree.items() if name != key}
    return {**tree, key: _changed(tree[key], chance)}


def trace(data: bytes, most: int, seed: int) -> bytes:
    """One chunk of a trace changed: a value of its column, its header, or its place."""
    chance = random.Random(seed)
    chunks = _chunks(data)
    if not chunks or chance.random() < ANYHOW:
        return bytes(atheris.Mutate(data, most))
    at = chance.randrange(len(chunks))
    row, width, payload = chunks[at]
    match chance.randrange(5):
        case 0:
            chunks.pop(at)
        case 1:
            chunks.insert(chance.randrange(len(chunks) + 1), chunks[at])
        case 2 if not width:
            tree = _changed(msgspec.msgpack.decode(payload), chance) if _decodes(payload) else None
            chunks[at] = (row, width, msgspec.msgpack.encode(tree))
        case _ if width in (1, 2, 4, 8) and len(payload) >= width:
            place = chance.randrange(len(payload) // width) * width
            value = chance.choice((-1, 0, 1, 2, 5, 127, -128, chance.getrandbits(8 * width - 1)))
            raw = (value % (1 << 8 * width)).to_bytes(width, "little")
            chunks[at] = (row, width, payload[:place] + raw + payload[place + width :])
        case _:
            chunks[at] = (row, width, bytes(atheris.Mutate(payload or b"\0", len(payload) + 8)))
    return (data[: PREFIX.size] + b"".join(CHUNK.pack(r, w, len(p), 0) + p for r, w, p in chunks))[:most]


def _chunks(data: bytes) -> list[tuple[int, int, bytes]]:
    """The section, width and payload of all chunks that are whole."""
    found, at = [], PREFIX.size
    while at + CHUNK.size <= len(data):
        row, width, length, _ = CHUNK.unpack_from(data, at)
        at += CHUNK.size
        if at + length > len(data):
            break
        found.append((row, width, data[at : at + length]))
        at += length
    return found


def _decodes(payload: bytes) -> bool:
    try:
        msgspec.msgpack.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


MUTATORS = {"messages": message, "traces": trace, "ferries": message}
