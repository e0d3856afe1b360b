"""Attribution of waiting: to the ranks that others waited for, and to the stages of a pipeline."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prism.core.graph import Graph, Int64, NodeKind, OpKind, Timeline
from prism.core.timeline.analysis import Window, last_ops, main_lanes


class Straggler(NamedTuple):
    """A rank that others waited for: how long in all, in ns, and where it came late most (row in `sites`, -1: none)."""

    rank: int
    caused_ns: int
    site: int


def stragglers(graph: Graph, timeline: Timeline, window: Window) -> list[Straggler]:
    """The ranks that made others wait inside the window, worst first.

    A blocked wait is laid to the rank that posted last the op that the wait ended with, from when the wait began until
    that post. What follows (the op before it in its channel, the op itself) is communication and nobody's fault. Of a
    rank only its main lane is looked at, so the sum over all ranks is at most the sum of their waiting.
    """
    blocked = (graph.nodes["kind"] == NodeKind.WAIT) & (timeline.node_end > timeline.node_start)
    waits = np.flatnonzero(blocked & main_lanes(graph)[graph.node_lane()])
    if not waits.size:
        return []
    ops = last_ops(graph, timeline)[graph.nodes["ref"][waits]]
    posts = graph.posts[last_posts(graph, timeline)[ops]]
    lost = np.clip(timeline.node_end[posts], *window) - np.clip(timeline.node_start[waits], *window)
    rank = graph.node_rank()
    late = np.flatnonzero((lost > 0) & (rank[posts] != rank[waits]))
    places = np.stack((rank[posts[late]], graph.nodes["site"][posts[late]]), axis=1)
    places, row = np.unique(places, axis=0, return_inverse=True)
    caused = np.zeros(len(places), np.int64)
    np.add.at(caused, row.ravel(), lost[late])
    return _by_rank(places, caused)


def _by_rank(places: Int64, caused: Int64) -> list[Straggler]:
    """Join the places (rank, site) of each rank; its site is the one that cost most."""
    order = np.lexsort((places[:, 1], -caused, places[:, 0]))
    ranks, first = np.unique(places[order, 0], return_index=True)
    total = np.add.reduceat(caused[order], first) if first.size else caused
    found = zip(ranks.tolist(), total.tolist(), places[order[first], 1].tolist(), strict=True)
    return sorted((Straggler(*one) for one in found), key=lambda one: (-one.caused_ns, one.rank))


def last_posts(graph: Graph, timeline: Timeline) -> Int64:
    """The row in `posts` of each op's last post, int64[ops]; of equally late ones that of the lowest group rank."""
    posted = timeline.node_end[graph.posts]
    op = np.repeat(np.arange(len(graph.ops)), np.diff(graph.post_ptr))
    order = np.lexsort((-np.arange(len(posted)), posted, op))
    return order[graph.post_ptr[1:] - 1]


def pipeline_stages(graph: Graph) -> list[list[int]]:
    """The ranks of each stage, or nothing where the messages do not look like pipelines.

    A pipeline is a set of ranks that messages join, directly or through others. If all such sets have the same size,
    stage k is the k-th rank of each. That is how the usual meshes number their ranks; ranks that pass messages for
    another purpose, such as a ring of attention, look the same.
    """
    messages = graph.ops["kind"] == OpKind.SEND_RECV
    ends = graph.posts[np.stack((graph.post_ptr[:-1][messages], graph.post_ptr[1:][messages] - 1))]
    one, other = graph.node_rank()[ends]
    lowest = np.arange(graph.world_size)  # in the end: the lowest rank of each rank's pipeline
    while (lowest[one] != lowest[other]).any():
        for end in (one, other):
            np.minimum.at(lowest, end, np.minimum(lowest[one], lowest[other]))
        lowest = lowest[lowest]
    talking = np.unique((one, other))
    sizes = np.unique(lowest[talking], return_counts=True)[1]
    if not sizes.size or sizes.min() != sizes.max() or sizes[0] == 1:
        return []
    pipelines = talking[np.argsort(lowest[talking], kind="stable")].reshape(-1, sizes[0])
    stages: list[list[int]] = pipelines.T.tolist()
    return stages
