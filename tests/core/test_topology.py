"""Which links ops take, by hand, and what comes of sharing them."""

from __future__ import annotations

import pytest

from prism.core.graph import Graph, OpKind
from prism.core.timeline.engine import simulate
from prism.core.timeline.network import LinkClass, Network, op_costs
from prism.core.timeline.sharing import FULL
from prism.core.timeline.topology import Topology, op_loads
from tests.core.jobs import Job

WORLD = 8
NETWORK = Network("alpha-beta", LinkClass(4_000_000_000, 0), LinkClass(1_000_000_000, 0))
RAIL = Topology("rail", ranks_per_node=2)
PODS = Topology("two-tier", ranks_per_node=2, pods=2, oversubscription=4.0)  # nodes 0 1 and 2 3; an uplink is one NIC's
OUT, IN, NIC_OUT, NIC_IN, UP, DOWN = (direction * WORLD for direction in range(6))


def loads(kind: OpKind, ranks: tuple[int, ...], topology: Topology, root: int = -1) -> dict[int, float]:
    job = Job(WORLD)
    group = job.group(ranks)
    for rank in ranks:
        job.post(rank, kind, 800, group, root)
    return fractions(job.graph(), topology)


def message(sender: int, receiver: int, topology: Topology) -> dict[int, float]:
    job = Job(WORLD)
    job.send(sender, receiver, 100)
    job.recv(receiver, sender, 100)
    return fractions(job.graph(), topology)


def fractions(graph: Graph, topology: Topology) -> dict[int, float]:
    (taken,) = op_loads(graph, NETWORK, topology)
    return {link: load / FULL for link, load in taken}


@pytest.mark.parametrize("topology", [RAIL, PODS])
def test_a_message_inside_a_node_takes_its_links(topology: Topology) -> None:
    assert message(0, 1, topology) == {OUT + 0: 1, IN + 1: 1}


def test_a_message_on_a_rail_or_in_a_pod_takes_two_nics() -> None:
    assert message(0, 6, RAIL) == {NIC_OUT + 0: 1, NIC_IN + 6: 1}
    assert message(0, 3, PODS) == {NIC_OUT + 0: 1, NIC_IN + 3: 1}


def test_a_message_between_switches_takes_both_uplinks() -> None:
    # A rail has four ranks and no oversubscription, a pod four ranks on the bandwidth of one.
    assert message(0, 3, RAIL) == {NIC_OUT + 0: 1, NIC_IN + 3: 1, UP + 0: 0.25, DOWN + 1: 0.25}
    assert message(5, 0, PODS) == {NIC_OUT + 5: 1, NIC_IN + 0: 1, UP + 1: 1, DOWN + 0: 1}


def test_a_ring_crosses_nodes_where_its_order_does() -> None:
    inside = {OUT + 0: 0.25, IN + 1: 0.25, OUT + 2: 0.25, IN + 3: 0.25}
    across = {NIC_OUT + 1: 1, NIC_IN + 2: 1, NIC_OUT + 3: 1, NIC_IN + 0: 1}
    assert loads(OpKind.ALL_REDUCE, (0, 1, 2, 3), RAIL) == inside | across
    assert loads(OpKind.ALL_REDUCE, (0, 1, 2, 3), PODS) == inside | across


def test_a_ring_over_both_pods_takes_each_uplink_once() -> None:
    taken = loads(OpKind.ALL_GATHER, tuple(range(8)), PODS)
    assert {link: load for link, load in taken.items() if link >= UP} == {UP: 1, UP + 1: 1, DOWN: 1, DOWN + 1: 1}
    assert not [link for link in loads(OpKind.ALL_GATHER, tuple(range(8)), RAIL) if link >= UP]


def test_chains_begin_or_end_at_the_root() -> None:
    assert loads(OpKind.BROADCAST, (0, 2, 4), RAIL, root=1) == {
        NIC_OUT + 2: 1, NIC_OUT + 4: 1, NIC_IN + 4: 1, NIC_IN + 0: 1
    }  # fmt: skip
    assert loads(OpKind.REDUCE, (0, 2, 4), RAIL, root=1) == {
        NIC_OUT + 4: 1, NIC_OUT + 0: 1, NIC_IN + 0: 1, NIC_IN + 2: 1
    }  # fmt: skip


def test_the_root_is_the_busiest_of_a_gather_and_of_a_scatter() -> None:
    half = 0.5
    assert loads(OpKind.GATHER, (0, 2, 4), RAIL, root=0) == pytest.approx(
        {NIC_OUT + 2: half, NIC_OUT + 4: half, NIC_IN + 0: 1}
    )
    assert loads(OpKind.SCATTER, (0, 2, 4), RAIL, root=0) == pytest.approx(
        {NIC_OUT + 0: 1, NIC_IN + 2: half, NIC_IN + 4: half}
    )


def test_an_exchange_goes_by_its_splits() -> None:
    job = Job(WORLD)
    group = job.group((0, 4))
    for rank in (0, 4):
        job.post(rank, OpKind.ALL_TO_ALL, 100, group, splits=[900, 40, 10, 900])
    assert fractions(job.graph(), PODS) == pytest.approx(
        {NIC_OUT + 0: 1, NIC_IN + 4: 1, NIC_OUT + 4: 0.25, NIC_IN + 0: 0.25,
         UP + 0: 1, DOWN + 1: 1, UP + 1: 0.25, DOWN + 0: 0.25}
    )  # fmt: skip


def test_what_moves_nothing_takes_no_link() -> None:
    assert loads(OpKind.BARRIER, (0, 4), PODS) == {}
    assert loads(OpKind.ALL_REDUCE, (3,), PODS) == {}
    job = Job(WORLD)
    for rank in range(WORLD):
        job.post(rank, OpKind.ALL_TO_ALL, 0, splits=[0] * WORLD * WORLD)
    assert fractions(job.graph(), PODS) == {}


@pytest.mark.parametrize(("pairs", "slowdown"), [(1, 1), (2, 2), (4, 4)])
def test_messages_from_pod_to_pod_share_the_uplink(pairs: int, slowdown: int) -> None:
    job = Job(WORLD)
    for rank in range(pairs):
        job.wait(rank, job.send(rank, rank + 4, 1000))
        job.wait(rank + 4, job.recv(rank + 4, rank, 1000))
    graph = job.graph()
    costs = op_costs(graph, NETWORK, 2)
    assert set(costs.total.tolist()) == {1000}
    outcome = simulate(graph, graph.nodes["duration"], costs, loads=op_loads(graph, NETWORK, PODS))
    assert set(outcome.timeline.op_end.tolist()) == {1000 * slowdown}


def test_an_exchange_that_is_too_much_for_the_uplink_is_slow_alone() -> None:
    job = Job(WORLD)
    for rank in range(WORLD):
        job.wait(rank, job.post(rank, OpKind.ALL_TO_ALL, 8000, splits=[1000] * WORLD * WORLD))
    graph = job.graph()
    outcome = simulate(
        graph, graph.nodes["duration"], op_costs(graph, NETWORK, 2), loads=op_loads(graph, NETWORK, PODS)
    )
    # Four ranks send 4000 bytes each from pod to pod, over an uplink of 1 byte/ns.
    assert outcome.timeline.op_end.tolist() == [16_000]
