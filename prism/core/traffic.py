"""Who puts how much into what: the operations of a job as sets of ranks, and how many of their bytes cross hosts.

Whoever sums has all inputs on its host, and a result is needed by all members; so of an operation those bytes cross
that members put in which are not on the host that most are on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from prism.core.graph import Graph, OpKind


class Talk(NamedTuple):
    """Ranks that talk to each other, ascending, and the bytes that each of them puts in over the whole job."""

    ranks: tuple[int, ...]
    nbytes: int


def talks(graph: Graph, among: Collection[int]) -> list[Talk]:
    """What the ranks in `among` say to each other: a group's collectives together, and messages by their two ends."""
    found: defaultdict[tuple[int, ...], int] = defaultdict(int)
    message = graph.ops["kind"] == OpKind.SEND_RECV
    of_group = np.zeros(len(graph.groups), np.int64)
    np.add.at(of_group, graph.ops["group"][~message], graph.ops["nbytes"][~message])
    for group, nbytes in zip(graph.groups, of_group.tolist(), strict=True):
        found[tuple(sorted(group.ranks))] += nbytes
    rank = graph.node_rank()
    sender, receiver = graph.posts[graph.post_ptr[:-1][message]], graph.posts[graph.post_ptr[1:][message] - 1]
    ends = np.sort(np.stack((rank[sender], rank[receiver])), axis=0)
    pairs, row = np.unique(ends, axis=1, return_inverse=True)
    of_pair = np.zeros(pairs.shape[1], np.int64)
    np.add.at(of_pair, row.ravel(), graph.ops["nbytes"][message])
    for (low, high), nbytes in zip(pairs.T.tolist(), of_pair.tolist(), strict=True):
        found[low, high] += nbytes
    there = set(among)
    within = ((tuple(rank for rank in ranks if rank in there), nbytes) for ranks, nbytes in sorted(found.items()))
    return [Talk(ranks, nbytes) for ranks, nbytes in within if len(ranks) > 1 and nbytes]


def crossing(talks: Iterable[Talk], placed: Mapping[int, int]) -> int:
    """The bytes that cross hosts where each rank is on the host that `placed` says."""
    return sum(nbytes * (len(ranks) - max(Counter(placed[r] for r in ranks).values())) for ranks, nbytes in talks)
