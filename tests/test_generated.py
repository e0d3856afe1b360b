"""The generated graph of the replay benchmark is a job like any other: both engines agree on it."""

from __future__ import annotations

import numpy as np

from benchmarks.generated import Shape, graph
from prism.core.graph import NodeKind, OpKind
from prism.core.prismtrace import Trace, decode, encode
from prism.core.timeline.engine import simulate
from prism.core.timeline.network import LinkClass, Network, op_costs
from prism.core.timeline.replay import evaluate, make_plan

SHAPE = Shape(stages=3, replicas=2, shards=2, micro_batches=4, layers=2)
NETWORK = Network("alpha-beta", LinkClass(450 * 10**9, 3_000), LinkClass(50 * 10**9, 8_000))


def test_both_engines_agree() -> None:
    job = graph(SHAPE)
    costs = op_costs(job, NETWORK, ranks_per_node=2)
    durations = job.nodes["duration"].astype(np.int64)
    static = evaluate(make_plan(job), durations, costs.total)
    dynamic = simulate(job, durations, costs).timeline
    for name in ("node_start", "node_end", "op_start", "op_end"):
        assert np.array_equal(getattr(static, name), getattr(dynamic, name)), name


def test_every_op_has_the_posts_of_its_members() -> None:
    job = graph(SHAPE)
    assert len(job.lanes) == SHAPE.world == 12
    posting = np.flatnonzero(job.nodes["kind"] == NodeKind.POST)
    assert np.array_equal(np.sort(job.posts), posting)
    members = np.diff(job.post_ptr)
    sizes = np.array([len(group.ranks) for group in job.groups])[job.ops["group"]]
    messages = job.ops["kind"] == OpKind.SEND_RECV
    assert np.array_equal(members[~messages], sizes[~messages])
    assert (members[messages] == 2).all()


def test_a_sender_posts_the_message_that_its_neighbour_awaits() -> None:
    job = graph(SHAPE)
    rank = job.node_rank()[job.posts]
    messages = np.flatnonzero(job.ops["kind"] == OpKind.SEND_RECV)
    hops = rank[job.post_ptr[messages] + 1] - rank[job.post_ptr[messages]]
    assert set(hops.tolist()) == {SHAPE.replicas * SHAPE.shards, -SHAPE.replicas * SHAPE.shards}


def test_it_survives_its_file() -> None:
    job = graph(SHAPE)
    again = decode(b"".join(encode(Trace(job, "test", "")))).graph
    assert np.array_equal(again.nodes, job.nodes)
    assert np.array_equal(again.ops, job.ops)
