"""Replay against an interpreter that runs the lanes one node at a time, on random programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.graph import Graph, InvalidGraph, NodeKind, OpKind, Stream
from prism.core.levels import Cycle, topological_levels
from prism.core.timeline.replay import evaluate, make_plan, slow
from tests.core.jobs import Job, data_parallel, expert_parallel, pipeline, two_dimensional

WORLD = 4
GROUPS = ((0, 1, 2, 3), (2, 0), (1, 2, 3))
ACTIONS = st.lists(st.tuples(st.integers(0, WORLD - 1), st.integers(0, 8), st.integers(0, 60)), max_size=80)


class RandomProgram:
    """Interprets random numbers as a program that can run: a wait is emitted only once what it waits for can end."""

    def __init__(self) -> None:
        self.job = Job(WORLD)
        for ranks in GROUPS[1:]:
            self.job.group(ranks)
        self.mine: dict[int, list] = {rank: [] for rank in range(WORLD)}
        self.events: list[int] = []

    def act(self, rank: int, action: int, value: int) -> None:
        job = self.job
        group = value % len(GROUPS)
        peer = (rank + 1 + value % (WORLD - 1)) % WORLD
        match action:
            case 0 | 1:
                job.compute(rank, value)
            case 2 | 3 if rank in GROUPS[group]:
                self.mine[rank].append(job.post(rank, OpKind.ALL_REDUCE, value, group))
            case 4:
                self.mine[rank].append(job.send(rank, peer, value))
            case 5:
                self.mine[rank].append(job.recv(rank, peer, value))
            case 6:
                ready = [handle for handle in self.mine[rank] if self._complete(handle)]
                job.wait(rank, *ready[-1 - value % 3 :])
            case 7:
                job.lane(rank, Stream(value % 3))
            case 8 if value % 2 or not self.events:
                self.events.append(job.record(rank))
            case 8:
                job.wait_event(rank, self.events[value % len(self.events)])

    def finish(self) -> Graph:
        for handle, op in sorted(self.job.ops.items()):
            (group, sender, receiver, tag), _ = handle
            ranks = self.job.groups[group].ranks
            for member in range(len(ranks)) if sender < 0 else (0, 1):
                if member not in op.posts and sender < 0:
                    self.job.post(ranks[member], OpKind.ALL_REDUCE, op.nbytes, group)
                elif member not in op.posts and member == 0:
                    self.job.send(ranks[sender], ranks[receiver], op.nbytes, group, tag)
                elif member not in op.posts:
                    self.job.recv(ranks[receiver], ranks[sender], op.nbytes, group, tag)
        return self.job.graph()

    def _complete(self, handle: tuple) -> bool:
        channel, seq = handle
        members = len(GROUPS[channel[0]]) if channel[1] < 0 else 2
        return all(len(self.job.ops[channel, earlier].posts) == members for earlier in range(seq + 1))


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    program = RandomProgram()
    for rank, action, value in draw(ACTIONS):
        program.act(rank, action, value)
    return program.finish()


def interpret(graph: Graph, durations: list[int], costs: list[int]) -> tuple[list, list, list, list]:
    """Runs every lane as far as it gets, again and again: node starts and ends, op starts and ends."""
    start, end = [None] * len(graph.nodes), [None] * len(graph.nodes)
    op_start, op_end = [None] * len(graph.ops), [None] * len(graph.ops)
    progress = True
    while progress:
        progress = False
        for first, last in zip(graph.lane_ptr, graph.lane_ptr[1:], strict=False):
            at = 0
            for node in range(first, last):
                kind, ref = graph.nodes["kind"][node], graph.nodes["ref"][node]
                needs = []
                if kind == NodeKind.WAIT:
                    needs = [op_end[op] for op in graph.wait_ops[graph.wait_ptr[ref] : graph.wait_ptr[ref + 1]]]
                elif kind == NodeKind.WAIT_EVENT:
                    records = graph.nodes["kind"] == NodeKind.RECORD
                    needs = [end[other] for other in np.flatnonzero(records & (graph.nodes["ref"] == ref))]
                if None in needs:
                    break
                progress |= end[node] is None
                start[node], end[node] = at, max([at + durations[node], *needs])
                at = end[node]
        for op in range(len(graph.ops)):
            needs = [end[post] for post in graph.posts[graph.post_ptr[op] : graph.post_ptr[op + 1]]]
            if graph.ops["prev"][op] >= 0:
                needs.append(op_end[graph.ops["prev"][op]])
            if op_end[op] is None and None not in needs:
                op_start[op] = max(needs)
                op_end[op] = op_start[op] + costs[op]
                progress = True
    return start, end, op_start, op_end


def costs_of(graph: Graph) -> np.ndarray:
    return 7 + 3 * graph.ops["nbytes"]


@given(programs())
def test_equals_the_interpreter_to_the_nanosecond(graph: Graph) -> None:
    durations, costs = graph.nodes["duration"], costs_of(graph)
    timeline = evaluate(make_plan(graph), durations, costs)
    expected = interpret(graph, durations.tolist(), costs.tolist())
    columns = (timeline.node_start, timeline.node_end, timeline.op_start, timeline.op_end)
    assert tuple(column.tolist() for column in columns) == expected


@given(programs())
def test_respects_every_dependency(graph: Graph) -> None:
    timeline = evaluate(make_plan(graph), graph.nodes["duration"], costs_of(graph))
    for op in range(len(graph.ops)):
        posts = graph.posts[graph.post_ptr[op] : graph.post_ptr[op + 1]]
        assert (timeline.node_end[posts] <= timeline.op_start[op]).all()
    for node in np.flatnonzero(graph.nodes["kind"] == NodeKind.WAIT):
        row = graph.nodes["ref"][node]
        ops = graph.wait_ops[graph.wait_ptr[row] : graph.wait_ptr[row + 1]]
        assert (timeline.op_end[ops] <= timeline.node_end[node]).all()


@given(programs(), st.data())
def test_more_computing_ends_nothing_earlier(graph: Graph, data: st.DataObject) -> None:
    plan, costs = make_plan(graph), costs_of(graph)
    longer = graph.nodes["duration"].copy()
    compute = np.flatnonzero(graph.nodes["kind"] == NodeKind.COMPUTE)
    if compute.size:
        longer[data.draw(st.sampled_from(compute.tolist()))] += data.draw(st.integers(1, 1000))
    before, after = evaluate(plan, graph.nodes["duration"], costs), evaluate(plan, longer, costs)
    assert (after.node_end >= before.node_end).all()
    assert (after.op_end >= before.op_end).all()


@given(programs())
def test_variants_in_one_pass_equal_single_passes(graph: Graph) -> None:
    plan = make_plan(graph)
    durations = np.stack([graph.nodes["duration"] * factor for factor in (1, 3)])
    costs = costs_of(graph)
    together = evaluate(plan, durations, costs)
    for row, single in enumerate(durations):
        alone = evaluate(plan, single, costs)
        assert together.node_start[row].tolist() == alone.node_start.tolist()
        assert together.node_end[row].tolist() == alone.node_end.tolist()
        assert together.op_end[row].tolist() == alone.op_end.tolist()


@pytest.mark.parametrize("graph", [data_parallel(4), pipeline(4, 3), expert_parallel(4), two_dimensional(2, 2)])
def test_parallel_programs_equal_the_interpreter(graph: Graph) -> None:
    costs = costs_of(graph)
    timeline = evaluate(make_plan(graph), graph.nodes["duration"], costs)
    expected = interpret(graph, graph.nodes["duration"].tolist(), costs.tolist())
    assert timeline.node_end.tolist() == expected[1]
    assert timeline.op_end.tolist() == expected[3]


def test_ops_of_one_channel_run_one_after_the_other() -> None:
    job = Job(2)
    for rank in (0, 1):
        job.post(rank, OpKind.ALL_REDUCE, 1)
        job.post(rank, OpKind.ALL_REDUCE, 1)
    timeline = evaluate(make_plan(job.graph()), np.zeros(4, np.int64), np.array([5, 5]))
    assert timeline.op_start.tolist() == [0, 5]


def test_a_job_without_nodes_has_an_empty_timeline() -> None:
    timeline = evaluate(make_plan(Job(2).graph()), np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert timeline.node_end.size == timeline.op_end.size == 0


def test_a_cycle_is_refused_with_its_nodes_and_ops() -> None:
    job = Job(2)
    other = job.group((0, 1), "other")
    for rank, order in ((0, (0, other)), (1, (other, 0))):
        for group in order:
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 4, group))
    with pytest.raises(InvalidGraph, match=r"cycle of 4 steps") as error:
        make_plan(job.graph())
    text = str(error.value)
    assert "wait (node 1, rank 0)" in text
    assert "wait (node 5, rank 1)" in text
    assert "all_reduce 0 on group 'other' (op 1)" in text


def test_an_event_nobody_records_is_refused() -> None:
    job = Job(1)
    job.wait_event(0, 3)
    with pytest.raises(InvalidGraph, match="node 0 waits for event 3, which no node records"):
        make_plan(job.graph())


def test_an_event_recorded_twice_is_refused() -> None:
    job = Job(1)
    job.record(0)
    job.events = 0
    job.record(0)
    with pytest.raises(InvalidGraph, match="event 0 is recorded 2 times"):
        make_plan(job.graph())


def test_wrong_lengths_are_refused() -> None:
    plan = make_plan(data_parallel(2, iterations=1, buckets=1))
    with pytest.raises(ValueError, match="durations has 3 values on its last axis; the plan has 12 nodes"):
        evaluate(plan, np.zeros(3, np.int64), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="costs has 2 values on its last axis; the plan has 1 ops"):
        evaluate(plan, np.zeros(12, np.int64), np.zeros(2, np.int64))


def test_slow_multiplies_the_chosen_ranks_and_rounds() -> None:
    job = Job(2)
    job.compute(0, 5)
    job.compute(1, 5)
    graph = job.graph()
    assert slow(graph, [1], 1.3).tolist() == [5, 6]
    assert graph.nodes["duration"].tolist() == [5, 5]


@pytest.mark.parametrize(
    ("ranks", "factor", "words"), [([2], 2.0, "rank 2"), ([0], -1.0, "-1.0"), ([0], np.nan, "nan")]
)
def test_slow_refuses_what_makes_no_sense(ranks: list[int], factor: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        slow(Job(2).graph(), ranks, factor)


def test_levels_put_every_edge_upwards() -> None:
    source, target = np.array([0, 0, 1, 2, 4]), np.array([1, 2, 3, 3, 3])
    levels = topological_levels(5, source, target)
    assert levels.order.tolist() == [0, 4, 1, 2, 3]
    assert levels.bounds.tolist() == [0, 2, 4, 5]


def test_levels_name_a_cycle_and_not_what_hangs_on_it() -> None:
    with pytest.raises(Cycle) as error:
        topological_levels(5, np.array([0, 1, 2, 3, 2]), np.array([1, 2, 3, 1, 4]))
    assert sorted(error.value.points) == [1, 2, 3]
