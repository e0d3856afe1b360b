"""Whether a graph that comes from elsewhere refers only to what it has: what is evaluated later need not ask again.

Flaws are named by the section of a PrismTrace that they are in (prism.core.prismtrace).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from prism.core.graph import DTYPES, REDUCES, Graph, Int64, NodeKind, OpKind, Stream

Bounds = tuple[str, Int64, int, int]
"""A section, its values, and the lowest and the highest that they may have."""


def flaw(graph: Graph) -> tuple[str, str] | None:
    """The section that is wrong first, and what is wrong with it; None for a graph that holds together.

    Durations may be anything, and order is not judged: a graph that has no order is refused where it is evaluated.
    """
    for section, values, low, high in _bounds(graph):
        wrong = np.flatnonzero((values < low) | (values > high))
        if wrong.size:
            return section, f"value {wrong[0]} is {values[wrong[0]]}, expected {low} to {high}"
    return _world(graph) or _posts(graph)


def overflow(values: Int64, dtype: np.dtype[np.signedinteger]) -> str | None:
    """What is wrong with values that do not fit the type of their column; None if they do."""
    bounds = np.iinfo(dtype)
    wrong = np.flatnonzero((values < bounds.min) | (values > bounds.max))
    return f"value {wrong[0]} is {values[wrong[0]]}, which does not fit into {dtype.name}" if wrong.size else None


def row_lengths(lengths: Int64, values: int) -> str | None:
    """What is wrong with the lengths of rows that hold so many values together; None if nothing is."""
    if lengths.size and (lengths.min() < 0 or lengths.max() > values):  # first: their sum could wrap around
        return f"a row is {lengths.min() if lengths.min() < 0 else lengths.max()} long, of {values} values"
    total = int(lengths.sum())
    return f"the rows hold {total} values, not {values}" if total != values else None


def _bounds(graph: Graph) -> Iterator[Bounds]:
    last_op, last_rank = len(graph.ops) - 1, graph.world_size - 1
    members = [rank for group in graph.groups for rank in group.ranks]
    if members:
        yield "header", _of(members), 0, last_rank
    yield "lanes.rank", _of(graph.lanes["rank"]), 0, last_rank
    yield "lanes.stream", _of(graph.lanes["stream"]), 0, max(Stream)
    yield "nodes.kind", _of(graph.nodes["kind"]), 0, max(NodeKind)
    yield "nodes.site", _of(graph.nodes["site"]), -1, len(graph.sites) - 1
    yield from _refs(graph)
    yield "ops.kind", _of(graph.ops["kind"]), 0, max(OpKind)
    yield "ops.reduce", _of(graph.ops["reduce"]), 0, len(REDUCES) - 1
    yield "ops.dtype", _of(graph.ops["dtype"]), 0, len(DTYPES) - 1
    yield "ops.group", _of(graph.ops["group"]), 0, len(graph.groups) - 1
    yield "ops.nbytes", _of(graph.ops["nbytes"]), 0, np.iinfo(np.int64).max
    yield "ops.prev", _of(graph.ops["prev"]), -1, last_op
    yield "posts", graph.posts, 0, len(graph.nodes) - 1
    yield "wait_ops", graph.wait_ops, 0, last_op
    yield "splits", graph.splits, 0, np.iinfo(np.int64).max


def _refs(graph: Graph) -> Iterator[Bounds]:
    """What nodes refer to, kind by kind."""
    most: Mapping[NodeKind, int] = {
        NodeKind.COMPUTE: -1,
        NodeKind.POST: len(graph.ops) - 1,
        NodeKind.WAIT: len(graph.wait_ptr) - 2,
    }
    for kind in NodeKind:
        least = -1 if kind is NodeKind.COMPUTE else 0
        refs = _of(graph.nodes["ref"][graph.nodes["kind"] == kind])
        yield f"nodes.ref of {kind.name.lower()}", refs, least, most.get(kind, np.iinfo(np.int32).max)


def _world(graph: Graph) -> tuple[str, str] | None:
    """Every rank has a lane, so that a world is no larger than the file; nobody is twice in a group."""
    ranks = graph.lanes["rank"]
    if (np.diff(ranks) < 0).any():
        return "lanes.rank", "lanes are not in the order of their ranks"
    there = len(np.unique(ranks))
    if there != graph.world_size:
        return "header", f"a world of {graph.world_size} ranks, of which {there} have lanes"
    for group in graph.groups:
        if len(set(group.ranks)) < len(group.ranks):
            return "header", f"group {group.name!r} has a rank twice"
    return None


def _posts(graph: Graph) -> tuple[str, str] | None:
    """What joins an op posts that op."""
    op = np.repeat(np.arange(len(graph.ops)), np.diff(graph.post_ptr))
    nodes = graph.nodes[graph.posts]
    wrong = np.flatnonzero((nodes["kind"] != NodeKind.POST) | (nodes["ref"] != op))
    return (
        ("posts", f"value {wrong[0]}: node {graph.posts[wrong[0]]} does not post op {op[wrong[0]]}")
        if wrong.size
        else None
    )


def _of(values: object) -> Int64:
    return np.asarray(values, np.int64)
