"""The bytes of a log of measured slices, which is only ever appended to.

It is a row of entries, each behind its length and checksum: first what the measurements are of, then one entry for each
slice that has run. Who dies while writing one leaves a torn tail; all before it counts.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from prism.core.events import Clocked
from prism.core.measuring.segments import Segments

FRAME = struct.Struct("<II")  # length, crc32 of the payload
VERSION = 3

T = TypeVar("T")


class Head(msgspec.Struct, array_like=True, frozen=True):
    """What is measured: the digest of all that decides it."""

    version: int
    digest: str


class Slice(msgspec.Struct, array_like=True, frozen=True):
    """The ranks of a slice, for how many iterations they ran (0: their whole program), and their segments.

    `clocks`: how the devices ran meanwhile, of ranks on a GPU.
    """

    answers: Literal["fast", "paced"]
    ranks: tuple[int, ...]
    iterations: int
    segments: list[Segments]
    clocks: list[Clocked] = []


def encode(entry: Head | Slice) -> bytes:
    """One entry of the log."""
    payload = msgspec.msgpack.encode(entry)
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def decode(data: bytes, digest: str) -> tuple[Sequence[Slice], int]:
    """The slices of a log of these measurements, and how many of its bytes are whole; none where it is of others."""
    head, at = _entry(data, 0, Head)
    if head != Head(VERSION, digest):
        return [], 0
    slices: list[Slice] = []
    while True:
        entry, after = _entry(data, at, Slice)
        if entry is None:
            return slices, at
        slices.append(entry)
        at = after


def _entry(data: bytes, at: int, kind: type[T]) -> tuple[T | None, int]:
    """The entry at an offset and the offset after it; None if there is no whole one."""
    start = at + FRAME.size
    if start > len(data):
        return None, at
    length, checksum = FRAME.unpack_from(data, at)
    payload = data[start : start + length]
    if len(payload) < length or zlib.crc32(payload) != checksum:
        return None, at
    try:
        return msgspec.msgpack.decode(payload, type=kind), start + length
    except msgspec.MsgspecError:
        return None, at
