"""A trace that is whole, but refers to what is not there, is refused with the section and the value that is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prism.core.graph import Graph, Group
from prism.core.prismtrace import CorruptTrace, Trace, decode, encode
from tests.core.jobs import expert_parallel

GRAPH = expert_parallel(2, iterations=1, layers=1)


def decoded(graph: Graph) -> Graph:
    return decode(b"".join(encode(Trace(graph)))).graph


def with_value(table: str, column: str, value: int, row: int = 0) -> Graph:
    rows = getattr(GRAPH, table).copy()
    rows[column][row] = value
    return replace(GRAPH, **{table: rows})


def with_first(column: str, value: int) -> Graph:
    values = getattr(GRAPH, column).copy()
    values[0] = value
    return replace(GRAPH, **{column: values})


def test_the_graph_itself_holds_together() -> None:
    assert decoded(GRAPH).world_size == 2


POST = int(np.flatnonzero(GRAPH.nodes["kind"] == 1)[0])
WAIT = int(np.flatnonzero(GRAPH.nodes["kind"] == 2)[0])


@pytest.mark.parametrize(
    ("graph", "section", "what"),
    [
        (with_value("lanes", "rank", 2, 1), "lanes.rank", "value 1 is 2, expected 0 to 1"),
        (with_value("lanes", "rank", 0, 1), "header", "a world of 2 ranks, of which 1 have lanes"),
        (with_value("lanes", "rank", 1, 0), "header", "of which 1 have lanes"),
        (with_value("lanes", "stream", 3), "lanes.stream", "expected 0 to 2"),
        (with_value("nodes", "kind", 6), "nodes.kind", "value 0 is 6, expected 0 to 5"),
        (with_value("nodes", "site", 99), "nodes.site", "value 0 is 99"),
        (with_value("nodes", "ref", 99, POST), "nodes.ref of post", "is 99"),
        (with_value("nodes", "ref", 99, WAIT), "nodes.ref of wait", "is 99"),
        (with_value("nodes", "ref", 5, 0), "nodes.ref of compute", "value 0 is 5, expected -1 to -1"),
        (with_value("ops", "kind", 10), "ops.kind", "expected 0 to 9"),
        (with_value("ops", "reduce", 99), "ops.reduce", "value 0 is 99"),
        (with_value("ops", "dtype", 99), "ops.dtype", "value 0 is 99"),
        (with_value("ops", "group", -1), "ops.group", "value 0 is -1"),
        (with_value("ops", "nbytes", -1), "ops.nbytes", "value 0 is -1"),
        (with_value("ops", "prev", -2), "ops.prev", "value 0 is -2"),
        (with_first("posts", -1), "posts", "value 0 is -1"),
        (with_first("posts", 0), "posts", "node 0 does not post op 0"),
        (with_first("wait_ops", 1 << 40), "wait_ops", "value 0 is 1099511627776"),
        (with_first("splits", -8), "splits", "value 0 is -8"),
        (replace(GRAPH, world_size=3), "header", "a world of 3 ranks, of which 2 have lanes"),
        (replace(GRAPH, groups=(Group("g", (0, 7)),)), "header", "is 7, expected 0 to 1"),
        (replace(GRAPH, groups=(Group("g", (1, 1)),)), "header", "group 'g' has a rank twice"),
    ],
)
def test_what_is_not_there_is_refused(graph: Graph, section: str, what: str) -> None:
    with pytest.raises(CorruptTrace) as caught:
        decoded(graph)
    assert (caught.value.section, what in str(caught.value)) == (section, True), caught.value
    assert caught.value.offset > 0


@pytest.mark.parametrize(
    ("ptr", "what"),
    [([0, -1, 5], "a row is -1 long"), ([0, 1 << 62, 1 << 62], "a row is 4611686018427387904 long")],
)
def test_rows_of_impossible_lengths_are_refused(ptr: list[int], what: str) -> None:
    """Their sum could be right all the same, once it has wrapped around."""
    graph: Any = replace(GRAPH, wait_ptr=np.array(ptr, np.int64))
    with pytest.raises(CorruptTrace, match=what):
        decoded(graph)


def test_a_value_that_its_column_cannot_hold_is_refused() -> None:
    nodes = GRAPH.nodes.astype([(name, "i8") for name in GRAPH.nodes.dtype.names or ()])
    nodes["ref"][0] = 1 << 40
    with pytest.raises(CorruptTrace, match=r"nodes.ref: value 0 is 1099511627776, which does not fit into int32"):
        decoded(replace(GRAPH, nodes=nodes))
