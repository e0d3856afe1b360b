"""PrismTrace: a graph survives the round trip, and a damaged file never becomes a graph."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from prism.core import prismtrace
from prism.core.graph import DTYPES, REDUCES, Graph, NodeKind, OpKind, Stream
from prism.core.prismtrace import CHUNK, COLUMNS, PREFIX, SECTIONS, CorruptTrace, Trace, decode, encode
from tests.core.jobs import Job, data_parallel, expert_parallel, pipeline, two_dimensional

DOCUMENT = Path(__file__).parents[2] / "docs" / "prismtrace.md"


def encoded(graph: Graph) -> bytes:
    return b"".join(encode(Trace(graph, tool="1.2.3", scenario="c0ffee")))


def small() -> Graph:
    return replace(expert_parallel(2, iterations=1, layers=1), sites=("train.py:7",))


def assert_equal(left: Graph, right: Graph) -> None:
    for column in fields(Graph):
        one, other = getattr(left, column.name), getattr(right, column.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype, column.name
            assert one.tolist() == other.tolist(), column.name
        else:
            assert one == other, column.name


@pytest.mark.parametrize("graph", [small(), data_parallel(4), pipeline(3, 2), two_dimensional(2, 2), Job(3).graph()])
def test_round_trip(graph: Graph) -> None:
    trace = decode(encoded(graph))
    assert_equal(trace.graph, graph)
    assert (trace.tool, trace.scenario) == ("1.2.3", "c0ffee")


def test_round_trip_of_values_of_every_width() -> None:
    graph = small()
    duration = graph.nodes["duration"].copy()
    for wide in (2**7, 2**15, 2**31, 2**63 - 1, -(2**63)):
        duration[0] = wide
        assert decode(encoded(graph.with_durations(duration))).graph.nodes["duration"][0] == wide


def test_long_columns_are_cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prismtrace, "CHUNK_VALUES", 5)
    graph = data_parallel(4)
    assert_equal(decode(encoded(graph)).graph, graph)


def test_the_same_graph_gives_the_same_bytes() -> None:
    assert encoded(small()) == encoded(decode(encoded(small())).graph)


@pytest.mark.parametrize("graph", [data_parallel(64), pipeline(16, 32), two_dimensional(16, 4)])
def test_a_node_takes_at_most_24_bytes(graph: Graph) -> None:
    assert len(encoded(graph)) <= 24 * len(graph.nodes)


def test_every_truncation_is_refused() -> None:
    data = encoded(small())
    for length in range(len(data)):
        with pytest.raises(CorruptTrace) as caught:
            decode(data[:length])
        assert caught.value.offset <= length
        assert caught.value.section in (*SECTIONS, "magic", "version", "unknown")


def test_every_flipped_byte_is_refused() -> None:
    data = encoded(small())
    for at in range(len(data)):
        with pytest.raises(CorruptTrace):
            decode(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])


def test_what_follows_the_end_is_refused() -> None:
    data = encoded(small())
    with pytest.raises(CorruptTrace, match=rf"byte {len(data)}, section end: 2 bytes follow the end"):
        decode(data + b"??")


def test_another_version_is_refused_by_its_number() -> None:
    data = encoded(small())
    with pytest.raises(CorruptTrace, match="format version 2; this PRISM reads version 1"):
        decode(PREFIX.pack(prismtrace.MAGIC, 2) + data[PREFIX.size :])


def test_the_message_names_the_byte_and_the_section() -> None:
    pieces = list(encode(Trace(small())))
    start = sum(len(piece) for piece in pieces[:4])  # prefix, header, lanes.rank, lanes.stream
    data = b"".join(pieces)
    with pytest.raises(CorruptTrace, match=rf"byte {start}, section lanes.index: .* cut off inside this chunk"):
        decode(data[: start + CHUNK.size + 1])
    with pytest.raises(CorruptTrace, match=rf"byte {start}, section lanes.stream: .* cut off after this section"):
        decode(data[:start])


def test_a_missing_chunk_is_noticed() -> None:
    pieces = list(encode(Trace(small())))
    del pieces[3]
    with pytest.raises(CorruptTrace, match=r"section lanes.stream: 0 values, but 2 were written"):
        decode(b"".join(pieces))


def test_columns_that_do_not_fit_together_are_refused() -> None:
    graph = small()
    broken = replace(graph, posts=graph.posts[:-1])
    with pytest.raises(CorruptTrace, match=r"section post_ptr: the rows hold 4 values, not 3"):
        decode(encoded(broken))


def test_a_header_of_another_shape_is_refused() -> None:
    pieces = list(encode(Trace(small())))
    pieces[1] = prismtrace._chunk("header", 0, msgspec.msgpack.encode({"world_size": "two"}))
    with pytest.raises(CorruptTrace, match=r"byte 12, section header: .*world_size"):
        decode(b"".join(pieces))


def test_the_document_lists_the_sections_in_order() -> None:
    text = DOCUMENT.read_text()
    assert tuple(re.findall(r"^\| `([a-z_.]+)` \|", text, re.MULTILINE)) == SECTIONS
    assert f"# PrismTrace, version {prismtrace.VERSION}\n" in text
    assert prismtrace.MAGIC.hex(" ") in text


@pytest.mark.parametrize("names", [[k.name.lower() for k in NodeKind], [k.name.lower() for k in OpKind], REDUCES])
def test_the_document_numbers_the_kinds(names: list[str]) -> None:
    assert ", ".join(f"{number} {name}" for number, name in enumerate(names)) in DOCUMENT.read_text()


def test_numbers_on_disk_are_fixed() -> None:
    # Changing any of these changes the meaning of files already written: raise VERSION instead.
    assert len(COLUMNS) == 23
    assert (len(DTYPES), DTYPES[8], list(Stream)) == (20, "float32", [0, 1, 2])
