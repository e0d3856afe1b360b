"""PrismTrace: the encoding of a graph as bytes. docs/prismtrace.md describes the format.

The file is a magic number, a version and a sequence of chunks, each with its own length and checksum. A chunk holds
the header, a run of one column's values, or the end. Chunks are only ever appended, so a writer that dies loses the
chunk it was writing; the end chunk tells a whole file from such a one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec
import numpy as np

from prism.core.graph import LANE, NODE, OP, Graph, Group, Int64, Table
from prism.core.integrity import flaw, overflow, row_lengths
from prism.core.levels import pointers

MAGIC = b"\x89PRISM\r\n"  # a byte above ASCII and a line end: a transfer as text breaks it at once
VERSION = 1
PREFIX = struct.Struct("<8sI")  # magic, version
CHUNK = struct.Struct("<BBII")  # section, bytes per value (0: msgpack), payload length, crc32 of all but itself
CHUNK_VALUES = 1 << 16

TABLES = {"lanes": LANE, "nodes": NODE, "ops": OP}
ROWS = {"lane_ptr": "nodes", "post_ptr": "posts", "wait_ptr": "wait_ops", "split_ptr": "splits"}
"""Pointer arrays are written as the lengths of their rows, which are small; the values they point into, beside them."""

COLUMNS = (
    *(f"{table}.{name}" for table, dtype in TABLES.items() for name in dtype.names or ()),
    *(part for pointer, values in ROWS.items() for part in (pointer, values) if part not in TABLES),
)
SECTIONS = ("header", *COLUMNS, "end")
"""A chunk's section is its row in this table."""


T = TypeVar("T")


class CorruptTrace(ValueError):
    """The bytes are no whole PrismTrace; the text names the byte, the section and what is wrong."""

    def __init__(self, offset: int, section: str, what: str) -> None:
        super().__init__(f"byte {offset}, section {section}: {what}")
        self.offset, self.section = offset, section


Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class GroupHeader(msgspec.Struct):
    name: str
    ranks: list[Number]
    backend: str


class Header(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is not a column; scenario is the digest of the scenario that the graph was captured with."""

    world_size: Number
    clock: str
    tool: str
    scenario: str
    groups: list[GroupHeader]
    sites: list[str]


@dataclass(frozen=True, slots=True)
class Trace:
    """A graph, the version of the tool that wrote it, and the digest of its scenario."""

    graph: Graph
    tool: str = ""
    scenario: str = ""


def encode(trace: Trace) -> Iterator[bytes]:
    """The trace as the pieces of a file, in order; the same trace gives the same bytes."""
    graph = trace.graph
    header = Header(
        world_size=graph.world_size,
        clock=graph.clock,
        tool=trace.tool,
        scenario=trace.scenario,
        groups=[GroupHeader(g.name, list(g.ranks), g.backend) for g in graph.groups],
        sites=list(graph.sites),
    )
    yield PREFIX.pack(MAGIC, VERSION)
    yield _chunk("header", 0, msgspec.msgpack.encode(header))
    columns = {name: _column(graph, name) for name in COLUMNS}
    for name, column in columns.items():
        for first in range(0, len(column), CHUNK_VALUES):
            values = _narrowed(column[first : first + CHUNK_VALUES])
            yield _chunk(name, values.itemsize, values.tobytes())
    yield _chunk("end", 0, msgspec.msgpack.encode([len(column) for column in columns.values()]))


def decode(data: bytes) -> Trace:
    """The trace in these bytes; raises CorruptTrace on anything cut off, changed, senseless or of another version."""
    _check_prefix(data)
    header: Header | None = None
    runs: dict[str, list[Int64]] = {name: [] for name in COLUMNS}
    starts: dict[str, int] = {}  # of the first chunk of each section
    end: list[int] | None = None
    offset, section = PREFIX.size, "header"
    while offset < len(data) and end is None:
        start = offset
        section, width, payload, offset = _read_chunk(data, start)
        starts.setdefault(section, start)
        if section == "header":
            header = _decoded(payload, Header, start, section)
        elif section == "end":
            end = _decoded(payload, list[int], start, section)
        else:
            runs[section].append(np.frombuffer(payload, f"<i{width}").astype(np.int64))
    if end is None:
        raise CorruptTrace(offset, section, "the file is cut off after this section")
    if offset < len(data):
        raise CorruptTrace(offset, "end", f"{len(data) - offset} bytes follow the end")
    if header is None:
        raise CorruptTrace(PREFIX.size, "header", "the file has none")
    return Trace(_checked(header, runs, end, starts), header.tool, header.scenario)


def _checked(header: Header, runs: dict[str, list[Int64]], end: list[int], starts: dict[str, int]) -> Graph:
    """The graph of all chunks, once it holds together."""
    columns = {name: np.concatenate([np.empty(0, np.int64), *run]) for name, run in runs.items()}
    _check_lengths(columns, end, starts["end"])
    graph = _graph(header, columns)
    if found := flaw(graph):
        raise CorruptTrace(starts.get(found[0].partition(" ")[0], starts["end"]), *found)
    return graph


def _column(graph: Graph, name: str) -> Int64:
    table, _, column = name.partition(".")
    if column:
        values: Int64 = getattr(graph, table)[column]
        return values
    plain: Int64 = getattr(graph, name)
    return np.diff(plain) if name in ROWS else plain


def _narrowed(values: Int64) -> Int64:
    """The values in the fewest bytes that hold them all: 1, 2, 4 or 8, signed, little-endian."""
    low, high = int(values.min()), int(values.max())
    for width in (1, 2, 4, 8):
        bound = 1 << (8 * width - 1)
        if -bound <= low and high < bound:
            return values.astype(f"<i{width}")
    raise AssertionError("a column is wider than 64 bits")


def _chunk(section: str, width: int, payload: bytes) -> bytes:
    row = SECTIONS.index(section)
    return CHUNK.pack(row, width, len(payload), _checksum(row, width, payload)) + payload


def _checksum(section: int, width: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack("<BBI", section, width, len(payload))))


def _check_prefix(data: bytes) -> None:
    if not data.startswith(MAGIC):
        raise CorruptTrace(0, "magic", "this is not a PrismTrace file")
    if len(data) < PREFIX.size:
        raise CorruptTrace(len(data), "version", "the file is cut off here")
    version = PREFIX.unpack_from(data)[1]
    if version != VERSION:
        raise CorruptTrace(len(MAGIC), "version", f"format version {version}; this PRISM reads version {VERSION}")


def _read_chunk(data: bytes, start: int) -> tuple[str, int, bytes, int]:
    """The section, width and payload of the chunk at `start`, and where the next one begins."""
    first = start + CHUNK.size
    row, width, length, checksum = CHUNK.unpack_from(data, start) if first <= len(data) else (-1, 0, 0, 0)
    section = SECTIONS[row] if 0 <= row < len(SECTIONS) else "unknown"
    if first + length > len(data):
        raise CorruptTrace(start, section, f"the file is cut off inside this chunk, at byte {len(data)}")
    payload = data[first : first + length]
    if section == "unknown" or _checksum(row, width, payload) != checksum:
        raise CorruptTrace(start, section, "the chunk's checksum does not match its content")
    if width not in ((1, 2, 4, 8) if section in COLUMNS else (0,)) or (width and length % width):
        raise CorruptTrace(start, section, f"{length} bytes of values {width} bytes wide")
    return section, width, payload, first + length


def _decoded(payload: bytes, kind: type[T], offset: int, section: str) -> T:
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptTrace(offset, section, str(error)) from None


def _check_lengths(columns: dict[str, Int64], end: list[int], offset: int) -> None:
    """Every column is as long as the end chunk says, as the other columns of its table, and as its rows add up to."""
    if len(end) != len(COLUMNS):
        raise CorruptTrace(offset, "end", f"{len(end)} lengths for {len(COLUMNS)} columns")
    expected = dict(zip(COLUMNS, end, strict=True))
    for name, column in columns.items():
        if len(column) != expected[name]:
            raise CorruptTrace(offset, name, f"{len(column)} values, but {expected[name]} were written")
    for table, dtype in TABLES.items():
        if len({expected[f"{table}.{name}"] for name in dtype.names or ()}) > 1:
            raise CorruptTrace(offset, table, "the columns of this table differ in length")
    for pointer, values in ROWS.items():
        total = expected["nodes.kind"] if values == "nodes" else expected[values]
        if what := row_lengths(columns[pointer], total):
            raise CorruptTrace(offset, pointer, what)
    for table, dtype in TABLES.items():
        for name, (kind, *_) in (dtype.fields or {}).items():
            if what := overflow(columns[f"{table}.{name}"], kind):
                raise CorruptTrace(offset, f"{table}.{name}", what)


def _graph(header: Header, columns: dict[str, Int64]) -> Graph:
    return Graph(
        world_size=header.world_size,
        groups=tuple(Group(group.name, tuple(group.ranks), group.backend) for group in header.groups),
        lanes=_table("lanes", columns),
        nodes=_table("nodes", columns),
        ops=_table("ops", columns),
        lane_ptr=pointers(columns["lane_ptr"]),
        post_ptr=pointers(columns["post_ptr"]),
        posts=columns["posts"],
        wait_ptr=pointers(columns["wait_ptr"]),
        wait_ops=columns["wait_ops"],
        split_ptr=pointers(columns["split_ptr"]),
        splits=columns["splits"],
        sites=tuple(header.sites),
        clock=header.clock,
    )


def _table(table: str, columns: dict[str, Int64]) -> Table:
    dtype = TABLES[table]
    names = dtype.names or ()
    rows = np.empty(len(columns[f"{table}.{names[0]}"]), dtype)
    for name in names:
        rows[name] = columns[f"{table}.{name}"]
    return rows
