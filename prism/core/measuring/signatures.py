"""Signatures: a number for what each node does, so that parts of lanes that do the same are found by comparing numbers.

Within a rank, messages to different peers are different things. Between ranks they are not: what a rank computes
follows from what it sends and gets, not from whom, so peers, tags and groups are left out there.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind, OpKind
from prism.core.numbering import number


def iteration_codes(graph: Graph, sizes: bool = True) -> Int64:
    """What each node does, for comparing nodes of one rank: int64[nodes].

    That is the kind of the node; for a POST also the op (kind, reduce op, dtype, group, root, tag, bytes, and the first
    and last member, which tell messages apart) and the member that posts; for a WAIT the number of ops. Without `sizes`
    ops of all numbers of bytes are alike.
    """
    members = np.diff(graph.post_ptr)
    names = ("kind", "reduce", "dtype", "group", "root", "tag", *(["nbytes"] if sizes else []))
    ranks = graph.node_rank()[graph.posts]
    ends = np.where(members > 0, [graph.post_ptr[:-1], graph.post_ptr[1:] - 1], 0)
    peers = ranks[ends] if ranks.size else ends
    op_code = np.repeat(number([*(graph.ops[name] for name in names), *peers]), members)
    return _node_codes(graph, number([op_code, _member(graph)]))


def rank_codes(graph: Graph) -> Int64:
    """What each node does, for comparing nodes of different ranks: int64[nodes].

    That is the kind of the node and the line of the program; for a POST also the op (kind, reduce op, dtype, bytes,
    number of members), the part in it (sender, receiver, root or none of these), and the bytes that the rank sends and
    gets in an all_to_all; for a WAIT the number of ops.
    """
    members = np.diff(graph.post_ptr)
    names = ("kind", "reduce", "dtype", "nbytes")
    ops = [np.repeat(column, members) for column in (*(graph.ops[name] for name in names), members)]
    member = _member(graph)
    is_message = ops[0] == OpKind.SEND_RECV
    part = np.where(is_message, member, member == np.repeat(graph.ops["root"], members))
    return number([_node_codes(graph, number([*ops, part, *_exchanged(graph)])), graph.nodes["site"]])


def ranks_alike(graph: Graph, apart: Collection[int] = ()) -> list[tuple[int, ...]]:
    """The ranks in classes: those of one class do the same. Ranks that are set `apart` are classes of their own."""
    codes, lanes = rank_codes(graph), graph.lanes
    signatures: dict[int, list[object]] = {}
    for lane, first, last in zip(lanes, graph.lane_ptr[:-1], graph.lane_ptr[1:], strict=True):
        part = (int(lane["stream"]), int(lane["index"]), codes[first:last].tobytes())
        signatures.setdefault(int(lane["rank"]), []).append(part)
    classes: dict[object, list[int]] = {}
    for rank, parts in signatures.items():
        classes.setdefault(rank if rank in apart else tuple(parts), []).append(rank)
    return [tuple(ranks) for ranks in classes.values()]


def _node_codes(graph: Graph, post_codes: Int64) -> Int64:
    """Codes of nodes from those of posts, int64[posts]."""
    detail = np.zeros(len(graph.nodes), np.int64)
    detail[graph.posts] = post_codes
    waits = np.flatnonzero(graph.nodes["kind"] == NodeKind.WAIT)
    detail[waits] = np.diff(graph.wait_ptr)[graph.nodes["ref"][waits]]
    code: Int64 = detail * len(NodeKind) + graph.nodes["kind"]
    return code


def _member(graph: Graph) -> Int64:
    """Which member of its op makes each post, int64[posts]."""
    member: Int64 = np.arange(len(graph.posts)) - np.repeat(graph.post_ptr[:-1], np.diff(graph.post_ptr))
    return member


def _exchanged(graph: Graph) -> tuple[Int64, Int64]:
    """The bytes that each post sends and gets in an all_to_all, int64[posts] each; 0 in other ops."""
    sent, received = np.zeros((2, len(graph.posts)), np.int64)
    op = np.repeat(np.arange(len(graph.ops)), np.diff(graph.split_ptr))
    at = np.arange(len(graph.splits)) - graph.split_ptr[op]
    members = np.diff(graph.post_ptr)[op]
    np.add.at(sent, graph.post_ptr[op] + at // members, graph.splits)
    np.add.at(received, graph.post_ptr[op] + at % members, graph.splits)
    return sent, received
