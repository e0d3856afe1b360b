"""One form for graphs that differ in nothing but the names and the order of groups, ops, waits and events."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from prism.core.graph import Graph, NodeKind, OpKind
from prism.core.levels import pointers, ranges


def assert_same(one: Graph, other: Graph) -> None:
    """Both graphs are equal, column by column, in that form."""
    left, right = canonical(one), canonical(other)
    assert left.groups == right.groups
    for column in fields(Graph):
        if column.name != "sites":
            assert np.array_equal(getattr(left, column.name), getattr(right, column.name)), column.name


def canonical(graph: Graph) -> Graph:
    """Groups in the order of their ranks (alike ones as they are) and without names, sites in the order of text."""
    order = sorted(range(len(graph.groups)), key=lambda row: graph.groups[row].ranks)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    rank, ops = graph.node_rank(), graph.ops.copy()
    ops["group"] = position[graph.ops["group"]]
    message = ops["kind"] == OpKind.SEND_RECV
    ends = np.zeros((2, len(ops)), np.int64) - 1
    first = graph.post_ptr[:-1][message]
    ends[:, message] = rank[graph.posts[first]], rank[graph.posts[first + 1]]
    rows = np.lexsort((ops["seq"], ops["tag"], ends[1], ends[0], ops["group"]))
    number = np.empty(len(rows), np.int64)
    number[rows] = np.arange(len(rows))
    ops = ops[rows]
    ops["prev"][ops["prev"] >= 0] = number[ops["prev"][ops["prev"] >= 0]]
    nodes = graph.nodes.copy()
    posting, waiting = nodes["kind"] == NodeKind.POST, nodes["kind"] == NodeKind.WAIT
    nodes["ref"][posting] = number[nodes["ref"][posting]]
    waits = nodes["ref"][waiting]
    nodes["ref"][waiting] = np.arange(waits.size)
    _number_events(nodes)
    _number_sites(nodes, graph.sites)
    post = ranges(graph.post_ptr[rows], graph.post_ptr[rows + 1])
    split = ranges(graph.split_ptr[rows], graph.split_ptr[rows + 1])
    awaited = ranges(graph.wait_ptr[waits], graph.wait_ptr[waits + 1])
    unnamed = tuple(replace(graph.groups[row], name="") for row in order)
    return replace(
        graph, groups=unnamed, nodes=nodes, ops=ops, posts=graph.posts[post], splits=graph.splits[split],
        post_ptr=pointers(np.diff(graph.post_ptr)[rows]), split_ptr=pointers(np.diff(graph.split_ptr)[rows]),
        wait_ptr=pointers(np.diff(graph.wait_ptr)[waits]), wait_ops=number[graph.wait_ops[awaited]],
    )  # fmt: skip


def _number_events(nodes: np.ndarray) -> None:
    """In the order in which they are recorded."""
    records, held = nodes["kind"] == NodeKind.RECORD, nodes["kind"] == NodeKind.WAIT_EVENT
    number = {event: row for row, event in enumerate(nodes["ref"][records].tolist())}
    for which in (records, held):
        nodes["ref"][which] = [number[event] for event in nodes["ref"][which].tolist()]


def _number_sites(nodes: np.ndarray, sites: tuple[str, ...]) -> None:
    ranked = np.array([sorted(sites).index(site) for site in sites] + [-1])
    nodes["site"] = ranked[nodes["site"]]
