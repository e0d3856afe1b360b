"""Repetition: the graph of a job whose lanes go through some of their parts more often, or less often.

The new lanes are made of old nodes. A node keeps what it does, on which channel and with whom; which op that is follows
from where it stands now: the n-th post of each side of a channel belongs to the n-th op, and waits move with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind, OpKind, Table
from prism.core.levels import pointers, ranges
from prism.core.numbering import number, number_lists
from prism.core.what_if.channels import Channels, awaited, channels, posted_before, running, waits


def repeated(graph: Graph, taken: Int64, lane_ptr: Int64) -> Graph:
    """The graph whose lanes are these nodes of `graph`, int64[new nodes]; lane_ptr: where each lane begins in them.

    A rank must have one lane. Raises ValueError naming ranks that no longer agree: the members of a channel would post
    unequal numbers of ops or unlike ones, or a rank would wait for what it has not posted.
    """
    within = channels(graph)
    nodes, side = graph.nodes[taken], within.side[taken]
    posts = np.flatnonzero(side >= 0)
    counts = _counts(graph, within, side[posts])
    start = pointers(counts)
    channel = np.searchsorted(within.side_ptr, side[posts], side="right") - 1
    op = start[channel] + running(side[posts])
    order = np.lexsort((side[posts], op))
    post_ptr = pointers(np.repeat(np.diff(within.side_ptr), counts))
    source = _sources(graph, within, nodes["ref"][posts[order]], post_ptr)
    nodes["ref"][posts] = op
    ops = graph.ops[source]
    ops["seq"] = np.arange(len(ops)) - np.repeat(start[:-1], counts)
    ops["prev"] = np.where(ops["seq"] > 0, np.arange(len(ops)) - 1, -1)
    wait_ptr, wait_ops = _waits(graph, within, taken, nodes, start)
    split = graph.split_ptr[source], graph.split_ptr[source + 1]
    return replace(
        graph, nodes=nodes, lane_ptr=lane_ptr, ops=ops, post_ptr=post_ptr, posts=posts[order], wait_ptr=wait_ptr,
        wait_ops=wait_ops, split_ptr=pointers(split[1] - split[0]), splits=graph.splits[ranges(*split)],
    )  # fmt: skip


def _counts(graph: Graph, within: Channels, side: Int64) -> Int64:
    """How many ops each channel has, int64[channels]: as many as each of its sides posts."""
    posted = np.bincount(side, minlength=int(within.side_ptr[-1]))
    lead = np.repeat(within.side_ptr[:-1], np.diff(within.side_ptr))
    wrong = np.flatnonzero(posted != posted[lead])
    if wrong.size:
        one, other = int(lead[wrong[0]]), int(wrong[0])
        told = f"rank {within.rank[one]} would post {posted[one]} and rank {within.rank[other]} {posted[other]}"
        raise ValueError(f"{told} {_called(graph, within, one)}")
    return posted[within.side_ptr[:-1]]


def _sources(graph: Graph, within: Channels, old: Int64, post_ptr: Int64) -> Int64:
    """The old op that each new one repeats, int64[new ops]; old: what its members repeat, which has to be alike."""
    meaning = _meanings(graph)[old]
    wrong = np.flatnonzero(meaning != np.repeat(meaning[post_ptr[:-1]], np.diff(post_ptr)))
    if wrong.size:
        first = post_ptr[np.searchsorted(post_ptr, wrong[0], side="right") - 1]
        one = int(within.side_ptr[within.of_op[old[first]]])
        ranks = f"ranks {within.rank[one]} and {within.rank[one + wrong[0] - first]}"
        raise ValueError(f"{ranks} would disagree about their {_called(graph, within, one)}")
    return old[post_ptr[:-1]]


def _meanings(graph: Graph) -> Int64:
    """A number for what each op does, equal for ops of a channel that do the same, int64[ops]."""
    names = ("kind", "reduce", "dtype", "root", "tag", "nbytes")
    return number([*(graph.ops[name] for name in names), number_lists(graph.split_ptr, graph.splits)])


def _waits(graph: Graph, within: Channels, taken: Int64, nodes: Table, start: Int64) -> tuple[Int64, Int64]:
    """`wait_ptr` and `wait_ops` of the new nodes, whose WAITs are numbered in their order."""
    old = waits(graph, within)
    chosen = np.flatnonzero(nodes["kind"] == NodeKind.WAIT)
    lengths = np.diff(graph.wait_ptr)[nodes["ref"][chosen]]
    nodes["ref"][chosen] = np.arange(len(chosen))
    first = np.searchsorted(old.node, taken[chosen])
    row, node = ranges(first, first + lengths), np.repeat(chosen, lengths)
    side = old.side[row]
    posted = posted_before(within.side[taken], side, node)
    place = awaited(side, old.distance[row], posted)
    early = np.flatnonzero((place < 0) | (place >= posted))
    if early.size:
        at = side[early[0]]
        raise ValueError(f"rank {within.rank[at]} would wait before it posts {_called(graph, within, at)}")
    op = start[within.of_op[old.op[row]]] + place
    unawaited = _unawaited(within, within.side, old.side, old.op)
    forgotten = np.flatnonzero((unawaited == 0) & (_unawaited(within, within.side[taken], side, op) > 0))
    if forgotten.size:
        told = f"wait for all of its {_called(graph, within, forgotten[0])}, as it does"
        raise ValueError(f"rank {within.rank[forgotten[0]]} would not {told}")
    return pointers(lengths), op


def _unawaited(within: Channels, side_of_node: Int64, side: Int64, op: Int64) -> Int64:
    """How many of the ops that they post the sides do not wait for, int64[sides]; side, op: what is waited for."""
    sides = len(within.rank)
    posted = np.bincount(side_of_node[side_of_node >= 0], minlength=sides)
    return posted - np.bincount(np.unique(op * sides + side) % sides, minlength=sides)


def _called(graph: Graph, within: Channels, side: int) -> str:
    """The ops of a side's channel in words."""
    channel = int(np.searchsorted(within.side_ptr, side, side="right")) - 1
    sides = range(within.side_ptr[channel], within.side_ptr[channel + 1])
    row = graph.ops[within.first[channel]]
    name = graph.groups[row["group"]].name
    if row["kind"] != OpKind.SEND_RECV:
        return f"collectives on group {name}"
    return f"messages from rank {within.rank[sides[0]]} to rank {within.rank[sides[-1]]} on group {name}"
