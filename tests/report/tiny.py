"""A job of two ranks small enough to be checked by eye, with its timeline."""

from __future__ import annotations

import numpy as np

from prism.core.graph import LANE, NODE, OP, Graph, Group, NodeKind, Timeline

# Rank 0 computes for 10 us, waits for an all_reduce that rank 1 joins at 20 us, then receives what rank 1 sends at
# 30 us. Per node: kind, ref, site, duration; when it starts and ends, in us.
RANK_0 = [
    ((0, -1, -1, 10_000), 0, 10),
    ((1, 0, 0, 0), 10, 10),
    ((2, 0, 0, 0), 10, 25),
    ((1, 1, 1, 0), 25, 25),
    ((2, 1, 1, 0), 25, 40),
    ((3, 0, -1, 0), 40, 40),
]
RANK_1 = [
    ((0, -1, -1, 20_000), 0, 20),
    ((1, 0, 0, 0), 20, 20),
    ((2, 2, 0, 0), 20, 25),
    ((0, -1, -1, 5_000), 25, 30),
    ((1, 1, 2, 0), 30, 30),
    ((2, 3, 2, 0), 30, 40),
    ((3, 0, -1, 0), 40, 40),
]


def tiny_job(recv_end: int = 40) -> tuple[Graph, Timeline]:
    """The job; its message is on the way from 30 us until `recv_end`."""
    rows = [(node, min(start, recv_end), min(end, recv_end)) for node, start, end in RANK_0 + RANK_1]
    graph = Graph(
        world_size=2,
        groups=(Group("world", (0, 1)),),
        lanes=np.array([(0, 0, 0), (1, 0, 0)], LANE),
        lane_ptr=np.array([0, 6, 13]),
        nodes=np.array([node for node, _, _ in rows], NODE),
        ops=np.array([(0, 1, 8, 0, 0, -1, -1, 4096, -1), (9, 0, 8, 0, 0, -1, 7, 512, -1)], OP),
        post_ptr=np.array([0, 2, 4]),
        posts=np.array([1, 7, 10, 3]),
        wait_ptr=np.arange(5),
        wait_ops=np.array([0, 1, 0, 1]),
        split_ptr=np.zeros(3, np.int64),
        splits=np.zeros(0, np.int64),
        sites=("train.py:9", "train.py:11", "train.py:12"),
        clock="ns",
    )
    start, end = (1000 * np.array(column) for column in zip(*((s, e) for _, s, e in rows), strict=True))
    return graph, Timeline(start, end, np.array([20_000, 30_000]), np.array([25_000, 1000 * recv_end]))


def long_job(ranks: int, pieces: int) -> tuple[Graph, Timeline]:
    """Ranks that compute and wait for events by turns, all by different times, without ops and marks."""
    rng = np.random.default_rng(0)
    took = rng.integers(1, 1000, (ranks, pieces))
    end = took.cumsum(axis=1)
    nodes = np.zeros(ranks * pieces, NODE)
    nodes["kind"] = np.tile([NodeKind.COMPUTE, NodeKind.WAIT_EVENT], ranks * pieces // 2)
    nodes["site"] = -1
    empty = np.zeros(0, np.int64)
    graph = Graph(
        world_size=ranks,
        groups=(),
        lanes=np.array([(rank, 1, 0) for rank in range(ranks)], LANE),
        lane_ptr=pieces * np.arange(ranks + 1),
        nodes=nodes,
        ops=np.zeros(0, OP),
        post_ptr=np.zeros(1, np.int64),
        posts=empty,
        wait_ptr=np.zeros(1, np.int64),
        wait_ops=empty,
        split_ptr=np.zeros(1, np.int64),
        splits=empty,
        clock="ns",
    )
    return graph, Timeline((end - took).ravel(), end.ravel(), empty, empty)
