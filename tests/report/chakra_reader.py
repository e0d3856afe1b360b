"""Chakra traces read back: by protocol buffers from the public schema, and run by the rules that ASTRA-sim has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet

COMP, SEND, RECV, COLL = 4, 5, 6, 7
_TYPES = {"string": 9, "uint64": 4, "int64": 3, "int32": 5, "bool": 8}
_SCHEMA = {
    "Metadata": [("version", 1, "string")],
    "Attribute": [
        ("name", 1, "string"), ("int32_val", 7, "int32"), ("int64_val", 9, "int64"),
        ("bool_val", 27, "bool"), ("string_val", 29, "string"),
    ],
    "Node": [
        ("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "int32"), ("ctrl_deps", 4, "uint64*"),
        ("data_deps", 5, "uint64*"), ("duration_micros", 7, "uint64"), ("attr", 10, ".Attribute*"),
    ],
}  # fmt: skip


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="chakra_reader.proto", syntax="proto3")
    for message, fields in _SCHEMA.items():
        told = file.message_type.add(name=message)
        for name, number, kind in fields:
            field = told.field.add(name=name, number=number, label=3 if kind.endswith("*") else 1)
            field.type = _TYPES.get(kind.rstrip("*"), 11)
            if field.type == 11:
                field.type_name = kind.rstrip("*")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in _SCHEMA}


_CLASS = _classes()


@dataclass(frozen=True)
class Node:
    id: int
    name: str
    type: int
    needs: frozenset[int]
    micros: int
    attributes: dict[str, int | str]


def read_trace(path: Path) -> list[Node]:
    """The nodes of a rank; fails on what a reader would not understand."""
    records = list(_records(path.read_bytes()))
    assert _CLASS["Metadata"].FromString(records[0]).version == "0.0.4"
    nodes = []
    for record in records[1:]:
        found = _CLASS["Node"].FromString(record)
        assert not len(UnknownFieldSet(found)), "a field that the schema does not have"
        values = {one.name: _value(one) for one in found.attr}
        assert values.pop("is_cpu_op") is False
        needs = frozenset([*found.data_deps, *found.ctrl_deps])
        nodes.append(Node(found.id, found.name, found.type, needs, found.duration_micros, values))
    return nodes


def _value(attribute: Any) -> Any:
    """The value, by the type that its name has in the simulator's reader."""
    if attribute.name in ("comm_type", "comm_size"):
        return attribute.int64_val
    if attribute.name in ("comm_src", "comm_dst", "comm_tag"):
        return attribute.int32_val
    return attribute.string_val if attribute.name == "pg_name" else attribute.bool_val


def _records(data: bytes) -> Any:
    at = 0
    while at < len(data):
        length = shift = 0
        while True:
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield data[at : at + length]
        at += length
    assert at == len(data), "the last record is whole"


def read_job(folder: Path) -> tuple[dict[str, list[int]], list[list[Node]]]:
    """The groups, and the nodes of all ranks."""
    count = len(list(folder.glob("trace.*.et")))
    groups = json.loads((folder / "groups.json").read_text())
    return groups, [read_trace(folder / f"trace.{rank}.et") for rank in range(count)]


def check_rules(groups: dict[str, list[int]], job: list[list[Node]]) -> None:
    """Assert all that the simulator refuses, or passes over in silence."""
    for rank, nodes in enumerate(job):
        ids = [one.id for one in nodes]
        assert ids, "a rank without nodes is refused"
        assert len(set(ids)) == len(ids), "of equal ids the last wins"
        for one in nodes:
            assert one.needs <= set(ids) - {one.id}
            if one.type == COLL:
                assert one.attributes["comm_type"] in (0, 2, 6, 7)
                assert rank in groups[str(one.attributes["pg_name"])]
            assert one.type == COMP or int(one.attributes["comm_size"]) > 0
            assert rank not in (one.attributes.get("comm_src"), one.attributes.get("comm_dst"))
    sent = [
        (rank, o.attributes["comm_dst"], *_match(o)) for rank, nodes in enumerate(job) for o in nodes if o.type == SEND
    ]
    got = [
        (o.attributes["comm_src"], rank, *_match(o)) for rank, nodes in enumerate(job) for o in nodes if o.type == RECV
    ]
    assert len(set(sent)) == len(sent), "a message is never taken for another"
    assert sorted(sent) == sorted(got)


def _match(one: Node) -> tuple[int | str, int | str]:
    return one.attributes["comm_tag"], one.attributes["comm_size"]


def run(groups: dict[str, list[int]], job: list[list[Node]]) -> list[list[str]]:
    """The names of all that each rank ends, in order; a rank has one collective or send at a time, lowest id first.

    Fails if ranks are stuck. Time passes in rounds: in each, all that can end does.
    """
    waiting = [{one.id: one for one in nodes} for nodes in job]
    issued: list[dict[int, Node]] = [{} for _ in job]
    done: list[list[str]] = [[] for _ in job]
    arrived: set[tuple[int | str, ...]] = set()
    while any(waiting) or any(issued):
        for rank, left in enumerate(waiting):
            for one in sorted(left.values(), key=lambda one: one.id):
                busy = any(other.type in (COLL, SEND) for other in issued[rank].values())
                if not one.needs & (left.keys() | issued[rank].keys()) and not (one.type in (COLL, SEND) and busy):
                    issued[rank][one.id] = left.pop(one.id)
        ended = [
            (rank, one)
            for rank in range(len(job))
            for one in issued[rank].values()
            if _ends(one, rank, issued, groups, arrived)
        ]
        assert ended, f"stuck: {[sorted(one.name for one in ones.values()) for ones in issued]}"
        for rank, one in ended:
            if one.type == SEND:
                arrived.add((rank, one.attributes["comm_dst"], *_match(one)))
            del issued[rank][one.id]
            done[rank].append(one.name)
    return done


def _ends(
    one: Node,
    rank: int,
    issued: list[dict[int, Node]],
    groups: dict[str, list[int]],
    arrived: set[tuple[int | str, ...]],
) -> bool:
    if one.type == RECV:
        return (one.attributes["comm_src"], rank, *_match(one)) in arrived
    if one.type != COLL:
        return True
    here = [[o for o in issued[member].values() if o.type == COLL] for member in groups[str(one.attributes["pg_name"])]]
    return all(other and other[0].attributes == one.attributes for other in here)
