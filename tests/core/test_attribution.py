"""Whom waiting is laid to, and which ranks are taken for the stages of a pipeline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism.core.graph import Graph, OpKind, Timeline
from prism.core.timeline.analysis import Window, analyse
from prism.core.timeline.attribution import Straggler, pipeline_stages, stragglers
from prism.core.timeline.replay import evaluate, make_plan
from tests.core.jobs import Job, data_parallel, expert_parallel, pipeline, two_dimensional

ALL = Window(0, 1 << 60)


def timed(graph: Graph, cost: int = 0) -> Timeline:
    return evaluate(make_plan(graph), graph.nodes["duration"], np.full(len(graph.ops), cost, np.int64))


def late_to(job: Job, paces: dict[int, int], group: int = 0) -> None:
    for rank, ns in paces.items():
        job.compute(rank, ns)
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 4, group))


def test_the_last_to_post_is_charged_with_what_each_of_the_others_waited() -> None:
    job = Job(3)
    late_to(job, {0: 100, 1: 300, 2: 250})
    graph = job.graph()
    assert stragglers(graph, timed(graph, cost=50), ALL) == [Straggler(1, 200 + 50, -1)], "not with the op's own time"


def test_of_ranks_that_are_equally_late_the_lowest_is_charged() -> None:
    job = Job(3)
    late_to(job, {0: 100, 1: 300, 2: 300})
    graph = job.graph()
    assert stragglers(graph, timed(graph), ALL) == [Straggler(1, 200, -1)]


def test_time_behind_the_op_before_is_charged_to_nobody() -> None:
    job = Job(2)
    for rank, ns in ((0, 10), (1, 30)):
        job.compute(rank, ns)
        job.post(rank, OpKind.ALL_REDUCE, 4)
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 4))
    graph = job.graph()
    timeline = timed(graph, cost=500)
    assert timeline.op_start.tolist() == [30, 530]
    assert stragglers(graph, timeline, ALL) == [Straggler(1, 20, -1)]


def test_only_what_lies_in_the_window_counts() -> None:
    job = Job(2)
    late_to(job, {0: 100, 1: 300})
    graph = job.graph()
    assert stragglers(graph, timed(graph), Window(150, 220)) == [Straggler(1, 70, -1)]
    assert stragglers(graph, timed(graph), Window(300, 400)) == []


def test_the_site_is_where_a_rank_came_late_most() -> None:
    job = Job(2)
    for paces in ({0: 0, 1: 30}, {0: 0, 1: 50}, {0: 0, 1: 40}):
        late_to(job, paces)
    graph = job.graph()
    nodes = graph.nodes.copy()
    nodes["site"][[row for row in graph.posts.tolist() if graph.node_rank()[row] == 1]] = [0, 1, 0]
    graph = replace(graph, nodes=nodes, sites=("first.py:1", "second.py:2"))
    assert stragglers(graph, timed(graph), ALL) == [Straggler(1, 120, 0)], "30 + 40 there, 50 at the other"


def test_worst_first() -> None:
    job = Job(3)
    late_to(job, {0: 0, 1: 10}, job.group((0, 1)))
    late_to(job, {1: 0, 2: 100}, job.group((1, 2)))
    graph = job.graph()
    assert stragglers(graph, timed(graph), ALL) == [Straggler(2, 90, -1), Straggler(1, 10, -1)]


@pytest.mark.parametrize("graph", [data_parallel(4), pipeline(4, 6), expert_parallel(4), two_dimensional(2, 3)])
def test_no_more_is_charged_than_was_waited(graph: Graph) -> None:
    timeline = timed(graph, cost=123_456)
    found = analyse(graph, timeline, 1)
    charged = sum(late.caused_ns for late in stragglers(graph, timeline, found.window))
    assert 0 <= charged <= found.wait_ns.sum()


def test_nobody_is_charged_where_nothing_is_waited_for() -> None:
    job = Job(1)
    job.compute(0, 100)
    assert stragglers(job.graph(), timed(job.graph()), ALL) == []


def message(job: Job, source: int, target: int) -> None:
    job.send(source, target, 4)
    job.wait(target, job.recv(target, source, 4))


def test_stages_are_the_ranks_at_one_place_of_their_pipelines() -> None:
    job = Job(7)
    for source, target in ((4, 2), (2, 0), (5, 3), (3, 1)):  # rank 6 sends to nobody
        message(job, source, target)
    assert pipeline_stages(job.graph()) == [[0, 1], [2, 3], [4, 5]]


def test_a_long_pipeline_is_one() -> None:
    assert pipeline_stages(pipeline(9, 1)) == [[rank] for rank in range(9)]


def test_unequal_sets_a_message_to_oneself_and_no_messages_are_no_pipelines() -> None:
    job = Job(5)
    for source, target in ((0, 1), (2, 3), (3, 4)):
        message(job, source, target)
    assert pipeline_stages(job.graph()) == []
    assert pipeline_stages(data_parallel(4)) == []
