"""The graph of a capture: what is in it, and that its bytes do not depend on who came first."""

from __future__ import annotations

import random

import pytest

from prism.core.events import Marked
from prism.core.graph import LANE, Graph, Group, NodeKind, OpKind
from prism.core.prismtrace import Trace, encode
from prism.core.stage.building import build_graph
from tests.core.actors import Stage, all_reduce, barrier, call, joined, on_stage, posted, recv, send, waited
from tests.core.random_programs import random_programs
from tests.core.simulation import Simulation

COMPUTE, POST, WAIT, MARK = NodeKind.COMPUTE, NodeKind.POST, NodeKind.WAIT, NodeKind.MARK


def graph_of(stage: Stage) -> Graph:
    return build_graph(stage.exchange.records, stage.exchange.matcher)


def encoded(graph: Graph) -> bytes:
    return b"".join(encode(Trace(graph)))


@pytest.mark.parametrize("seed", range(30))
def test_the_order_of_events_leaves_no_trace(seed: int) -> None:
    size = 2 + seed % 5
    programs = random_programs(seed, size, polls=True)
    traces = set()
    for order in range(4):
        simulation = Simulation(programs, slots=random.Random(order).randint(1, size), seed=order)
        simulation.run()
        traces.add(encoded(build_graph(simulation.exchange.records, simulation.exchange.matcher)))
    assert len(traces) == 1


def test_each_step_is_a_node_behind_its_compute_segment() -> None:
    stage = on_stage(2)
    stage.hear(posted(0, 1, site="a.py:1"), waited(0, 1, site="a.py:2"), Marked(rank=0), Marked(rank=0))
    stage.hear(posted(1, 1, site="a.py:1"))
    graph = graph_of(stage)
    assert graph.lanes.tolist() == [(0, 0, 0), (1, 0, 0)]
    assert graph.lanes.dtype == LANE
    assert graph.lane_ptr.tolist() == [0, 8, 10]
    assert graph.nodes["kind"].tolist() == [COMPUTE, POST, COMPUTE, WAIT, COMPUTE, MARK, COMPUTE, MARK, COMPUTE, POST]
    assert graph.nodes["ref"].tolist() == [-1, 0, -1, 0, -1, 0, -1, 1, -1, 0]
    assert [graph.sites[site] for site in graph.nodes["site"] if site >= 0] == ["a.py:1", "a.py:2", "a.py:1"]
    assert graph.posts.tolist() == [1, 9]
    assert graph.wait_ops.tolist() == [0]


def test_a_wait_keeps_the_order_of_the_program() -> None:
    stage = on_stage(1)
    stage.hear(posted(0, 1), posted(0, 2), posted(0, 3), waited(0, 3, 1, blocks=False))
    graph = graph_of(stage)
    assert (graph.wait_ptr.tolist(), graph.wait_ops.tolist()) == ([0, 2], [2, 0])


def test_groups_are_ordered_by_name_as_numbers_then_members() -> None:
    stage = on_stage(4)
    for name, ranks in (("10", (0, 1)), ("9", (2, 3)), ("9", (0, 1))):
        stage.hear(*(joined(rank, ranks, name) for rank in ranks))
    assert graph_of(stage).groups == (
        Group("9", (0, 1)), Group("9", (2, 3)), Group("10", (0, 1)), Group("default", (0, 1, 2, 3)),
    )  # fmt: skip


def test_operations_are_ordered_by_channel_and_linked_in_it() -> None:
    stage = on_stage(2)
    stage.hear(posted(0, 1, send(to=1, tag=3)), posted(0, 2, send(to=1)), posted(0, 3, send(to=1)))
    stage.hear(posted(1, 1, recv(source=0)), posted(1, 2, recv(source=0)), posted(1, 3, recv(source=0, tag=3)))
    stage.hear(*(posted(rank, handle, barrier()) for rank in range(2) for handle in (4, 5)))
    ops = graph_of(stage).ops
    assert ops["kind"].tolist() == [OpKind.BARRIER] * 2 + [OpKind.SEND_RECV] * 3
    assert ops["seq"].tolist() == [0, 1, 0, 1, 0]
    assert ops["tag"].tolist() == [-1, -1, 0, 0, 3]
    assert ops["prev"].tolist() == [-1, 0, -1, 2, -1]


def test_the_size_of_an_operation_is_its_largest_input_in_bytes() -> None:
    stage = on_stage(2)
    stage.hear(*(posted(r, 1, call(OpKind.ALL_GATHER, count, recv=(3, 5))) for r, count in enumerate((3, 5))))
    assert graph_of(stage).ops["nbytes"].tolist() == []  # its fold is still to come: it is not done
    stage.exchange.matcher.ops[0].done = True
    assert graph_of(stage).ops["nbytes"].tolist() == [20]


def test_what_never_completed_leaves_its_compute_segment() -> None:
    stage = on_stage(2)
    stage.hear(posted(0, 1, all_reduce()), waited(0, 1))
    graph = graph_of(stage)
    assert graph.nodes["kind"].tolist() == [COMPUTE, COMPUTE, WAIT]
    assert (len(graph.ops), graph.wait_ptr.tolist()) == (0, [0, 0])


def test_only_an_all_to_all_has_splits_and_they_are_bytes() -> None:
    stage = on_stage(2)
    for rank, (sent, got) in enumerate((((1, 3), (1, 2)), ((2, 2), (3, 2)))):
        stage.hear(posted(rank, 1, call(OpKind.ALL_TO_ALL, 4, send=sent, recv=got)), posted(rank, 2, barrier()))
    stage.exchange.matcher.ops[0].done = True
    graph = graph_of(stage)
    assert graph.split_ptr.tolist() == [0, 4, 4]
    assert graph.splits.tolist() == [4, 12, 8, 8]
