"""Costs of ops against the step and byte counts of the ring algorithms, worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.graph import InvalidGraph, OpKind
from prism.core.timeline.network import PIPELINE_CHUNK, LinkClass, Network, op_costs
from tests.core.jobs import Job

# 1 byte/ns and 2 bytes/ns, so that the costs below can be read.
NETWORK = Network("alpha-beta", LinkClass(2_000_000_000, 10), LinkClass(1_000_000_000, 1000))
FREE = Network("none", NETWORK.intra, NETWORK.inter)


def cost(kind: OpKind, nbytes: int, world: int = 4, ranks_per_node: int = 4, splits: tuple[int, ...] = ()) -> int:
    job = Job(world)
    for rank in range(world):
        job.post(rank, kind, nbytes, splits=splits)
    return int(op_costs(job.graph(), NETWORK, ranks_per_node).total[0])


@pytest.mark.parametrize(
    ("kind", "steps", "moved"),
    [
        (OpKind.ALL_REDUCE, 6, 1200),
        (OpKind.REDUCE_SCATTER, 3, 600),
        (OpKind.ALL_GATHER, 3, 2400),
        (OpKind.BROADCAST, 3, 2400),  # 800 bytes are one chunk, handed on three times
        (OpKind.REDUCE, 3, 2400),
        (OpKind.GATHER, 3, 2400),
        (OpKind.SCATTER, 3, 600),
        (OpKind.BARRIER, 2, 0),
    ],
)
def test_collectives_of_four_ranks_and_800_bytes(kind: OpKind, steps: int, moved: int) -> None:
    assert cost(kind, 800) == steps * 10 + moved // 2
    assert cost(kind, 800, ranks_per_node=2) == steps * 1000 + moved


def test_a_long_broadcast_is_pipelined() -> None:
    size = 100 * PIPELINE_CHUNK
    assert cost(OpKind.BROADCAST, size) == 30 + (size + 2 * PIPELINE_CHUNK) // 2


def test_all_to_all_takes_as_long_as_its_busiest_rank() -> None:
    # Rank 2 receives 3 + 30 + 7, more than any rank sends; what stays on a rank is not sent.
    splits = (900, 1, 3, 2, 4, 900, 30, 6, 1, 1, 900, 1, 1, 1, 7, 900)
    assert cost(OpKind.ALL_TO_ALL, 942, splits=splits) == 3 * 10 + (4 + 30 + 6) // 2


def test_all_to_all_of_several_sizes_in_one_graph() -> None:
    job = Job(4)
    pair = job.group((0, 3))
    for rank in range(4):
        job.post(rank, OpKind.ALL_TO_ALL, 12, splits=[4] * 16)
    for rank in (0, 3):
        job.post(rank, OpKind.ALL_TO_ALL, 8, pair, splits=[0, 6, 8, 0])
    assert op_costs(job.graph(), NETWORK, 4).total.tolist() == [30 + 6, 10 + 4]


def test_a_split_matrix_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidGraph, match="op 0: the split matrix of 4 members has 3 entries, not 16"):
        cost(OpKind.ALL_TO_ALL, 4, splits=(1, 2, 3))


def test_a_message_uses_the_link_of_its_pair_whatever_the_group_spans() -> None:
    job = Job(4)
    for sender, receiver in ((0, 1), (1, 2)):
        job.send(sender, receiver, 100)
        job.recv(receiver, sender, 100)
    assert op_costs(job.graph(), NETWORK, 2).total.tolist() == [10 + 50, 1000 + 100]


def test_a_group_inside_one_node_stays_on_its_links() -> None:
    job = Job(4)
    for ranks in ((2, 3), (1, 2)):
        group = job.group(ranks)
        for rank in ranks:
            job.post(rank, OpKind.ALL_REDUCE, 100, group)
    assert op_costs(job.graph(), NETWORK, 2).total.tolist() == [2 * 10 + 50, 2 * 1000 + 100]


@pytest.mark.parametrize("kind", [kind for kind in OpKind if kind not in (OpKind.SEND_RECV, OpKind.ALL_TO_ALL)])
def test_a_group_of_one_is_free(kind: OpKind) -> None:
    assert cost(kind, 1000, world=1) == 0


def test_no_network_costs_nothing() -> None:
    job = Job(2)
    for rank in (0, 1):
        job.post(rank, OpKind.ALL_REDUCE, 100)
    assert op_costs(job.graph(), FREE, 1).total.tolist() == [0]


@given(st.integers(0, 1 << 50), st.integers(1, 10**13))
def test_time_is_exact_and_rounded_up(nbytes: int, bandwidth: int) -> None:
    exact = ceil(Fraction(nbytes * 10**9, bandwidth))
    if exact < 1 << 60:
        assert LinkClass(bandwidth, 0).transfer_ns(np.array([nbytes])).tolist() == [exact]


@pytest.mark.parametrize(("bandwidth", "latency"), [(0, 1), (1, -1)])
def test_impossible_links_are_refused(bandwidth: int, latency: int) -> None:
    with pytest.raises(ValueError, match="bandwidth > 0 and latency >= 0"):
        LinkClass(bandwidth, latency)
