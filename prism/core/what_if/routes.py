"""Routes: the pairs of all_to_alls by which a mixture of experts takes tokens to ranks and brings them back.

Both are of one group and iteration, and each member gives back to each what it got: the split matrix of the second is
the transpose of the first's. Gradients take the same two ways.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prism.core.graph import DTYPES, Graph, Int64, NodeKind, OpKind
from prism.core.levels import pointers, ranges
from prism.core.numbering import number_lists

COUNTS = tuple(DTYPES.index(name) for name in ("int32", "int64"))
"""Types in which members tell each other how much is to come; such an exchange is no part of a route."""


@dataclass(frozen=True, slots=True)
class Routes:
    """Routes between as many members each, a row a route."""

    members: int
    there: Int64  # ops
    back: Int64  # ops

    def cells(self, graph: Graph, ops: Int64) -> Int64:
        """Where the split matrices of `there` or `back` lie in the graph's splits: int64[routes, members, members]."""
        cells: Int64 = graph.split_ptr[ops][:, None, None] + np.arange(self.members**2).reshape(2 * (self.members,))
        return cells


def find_routes(graph: Graph, group: str | None) -> Iterator[Routes]:
    """The routes of the groups of that name (None: of all), by the number of members."""
    chosen = np.array([group in (None, each.name) for each in graph.groups], np.bool_)
    ops, members = graph.ops, np.diff(graph.post_ptr)
    exchanges = np.flatnonzero(
        (ops["kind"] == OpKind.ALL_TO_ALL) & ~np.isin(ops["dtype"], COUNTS) & (members > 1) & chosen[ops["group"]]
    )
    there, back = _pairs(graph, exchanges)
    for size in np.unique(members[there]).tolist():
        rows = members[there] == size
        yield Routes(size, there[rows], back[rows])


def segments(graph: Graph, routes: Routes) -> tuple[Int64, Int64]:
    """Where each member has what was taken to it: from its wait for it to the post that brings it back.

    The first nodes behind the waits, and the posts, int64[routes, members] each; equal where it does not wait before.
    """
    member, world = np.arange(routes.members), graph.world_size
    last = graph.posts[graph.post_ptr[routes.back][:, None] + member]
    rank = graph.node_rank()
    wait = np.flatnonzero(graph.nodes["kind"] == NodeKind.WAIT)
    ptr = graph.wait_ptr[graph.nodes["ref"][wait]], graph.wait_ptr[graph.nodes["ref"][wait] + 1]
    node, op = np.repeat(wait, ptr[1] - ptr[0]), graph.wait_ops[ranges(*ptr)]
    waited, at = np.unique(np.append(op * world + rank[node], len(graph.ops) * world), return_index=True)
    wanted = routes.there[:, None] * world + rank[last]
    place = np.searchsorted(waited, wanted)
    behind = np.append(node + 1, 0)[at[place]]
    return np.where(waited[place] == wanted, np.minimum(behind, last), last), last


def _pairs(graph: Graph, exchanges: Int64) -> tuple[Int64, Int64]:
    """Of these ops those that take there, and for each the next one of its group that is its transpose."""
    own, mirrored = _matrices(graph, exchanges)
    places = np.stack((graph.ops["group"][exchanges], _iterations(graph, exchanges)))
    waiting: dict[tuple[int, ...], list[int]] = defaultdict(list)
    pairs = []
    for op, place, matrix, mirror in zip(exchanges.tolist(), places.T.tolist(), own, mirrored, strict=True):
        if waiting[*place, matrix]:
            pairs.append((waiting[*place, matrix].pop(), op))
        else:
            waiting[*place, mirror].append(op)
    there, back = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    return there, back


def _matrices(graph: Graph, exchanges: Int64) -> tuple[list[int], list[int]]:
    """Numbers for the split matrices of these ops, and for their transposes; equal ones have equal numbers."""
    first, last = graph.split_ptr[exchanges], graph.split_ptr[exchanges + 1]
    cells = ranges(first, last)
    base, n = (np.repeat(column, last - first) for column in (first, np.diff(graph.post_ptr)[exchanges]))
    mirrored = base + (cells - base) % n * n + (cells - base) // n
    lists = pointers(np.tile(last - first, 2))
    numbers = number_lists(lists, graph.splits[np.concatenate((cells, mirrored))]).tolist()
    return numbers[: len(exchanges)], numbers[len(exchanges) :]


def _iterations(graph: Graph, ops: Int64) -> Int64:
    """In which iteration of its first member each op is posted."""
    post = graph.posts[graph.post_ptr[ops]]
    marks = np.flatnonzero(graph.nodes["kind"] == NodeKind.MARK)
    start = graph.lane_ptr[np.searchsorted(graph.lane_ptr, post, side="right") - 1]
    iterations: Int64 = np.searchsorted(marks, post) - np.searchsorted(marks, start)
    return iterations
