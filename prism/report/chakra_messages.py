"""Records of a Chakra execution trace, in the bytes of protocol buffers.

Only what such a trace needs is here, with the field numbers of MLCommons' schema (chakra, schema/protobuf/et_def.proto,
version 0.0.4). A file is one GlobalMetadata and then its nodes, each with its length in front.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class NodeType(enum.IntEnum):
    """What a node does."""

    COMP = 4
    SEND = 5
    RECV = 6
    COLL = 7


class Collective(enum.IntEnum):
    """The collectives that ASTRA-sim runs."""

    ALL_REDUCE = 0
    ALL_GATHER = 2
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7


_INT32, _INT64, _BOOL, _STRING = 7, 9, 27, 29  # fields of an attribute, by the type of its value
_TYPES = {"comm_type": _INT64, "comm_size": _INT64, "comm_src": _INT32, "comm_dst": _INT32, "comm_tag": _INT32}


def metadata() -> bytes:
    """The record that a trace begins with."""
    return _delimited(_text(1, "0.0.4"))


def node(
    number: int, name: str, kind: NodeType, needs: Iterable[int], micros: int = 0, **attributes: int | str
) -> bytes:
    """One node: its id, what it is, the ids that it needs to have ended, its duration, its attributes."""
    parts = [_integer(1, number), _text(2, name), _integer(3, kind)]
    parts += [_bytes(5, b"".join(map(_varint, needs))), _integer(7, micros)]
    parts += [_bytes(10, _attribute(*attribute)) for attribute in attributes.items()]
    # Without this a node that communicates counts as work of the host, which is refused.
    parts.append(_bytes(10, _text(1, "is_cpu_op") + _integer(_BOOL, 0)))
    return _delimited(b"".join(parts))


def _attribute(name: str, value: int | str) -> bytes:
    return _text(1, name) + (_text(_STRING, value) if isinstance(value, str) else _integer(_TYPES[name], value))


def _delimited(record: bytes) -> bytes:
    return _varint(len(record)) + record


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)
