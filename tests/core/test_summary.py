"""The summary of the virtual ranks against replays of the whole world, whatever the sandbox ranks do in them."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.generated import Shape
from benchmarks.generated import graph as generated
from prism.core.emulation import virtual_paths
from prism.core.emulation.summary import NONE, Clock, summarize
from prism.core.emulation.touching import Touching, find_touching
from prism.core.graph import Graph, Int64, NodeKind, OpKind
from prism.core.timeline.replay import evaluate, make_plan
from tests.core.jobs import Job, data_parallel, expert_parallel, overlapped, pipeline, two_dimensional
from tests.core.test_replay import ACTIONS, WORLD, RandomProgram, costs_of

SANDBOXES = st.lists(st.integers(0, WORLD - 1), min_size=1, unique=True)


class OwnEvents(RandomProgram):
    """A random program in which ranks wait for events of their own only."""

    def __init__(self) -> None:
        super().__init__()
        self.of_rank: dict[int, list[int]] = {}

    def act(self, rank: int, action: int, value: int) -> None:
        self.events = self.of_rank.setdefault(rank, [])
        super().act(rank, action, value)


@st.composite
def worlds(draw: st.DrawFn) -> Graph:
    program = OwnEvents()
    for rank, action, value in draw(ACTIONS):
        program.act(rank, action, value)
    return program.finish()


class Emulated:
    """A graph summed up for some sandbox ranks, and replays of it in which these compute as long as they like."""

    def __init__(self, graph: Graph, sandbox: Sequence[int]) -> None:
        self.graph, self.costs, self.plan = graph, costs_of(graph), make_plan(graph)
        timeline = evaluate(self.plan, graph.nodes["duration"], self.costs)
        self.touching = find_touching(graph, self.plan, timeline.op_start, sandbox)
        self.summary = summarize(graph, self.plan, self.touching, graph.nodes["duration"], self.costs)
        self.free = (graph.nodes["kind"] == NodeKind.COMPUTE) & np.isin(graph.node_rank(), sandbox)

    def check(self, computed: Int64) -> None:
        """Where the sandbox ranks compute so long, virtual ranks post and ops end when replay says so."""
        durations = self.graph.nodes["duration"].astype(np.int64)
        durations[self.free] = computed
        timeline = evaluate(self.plan, durations, self.costs)
        clock = Clock(self.touching, self.summary, self.costs)
        for op, row in enumerate(self.touching.op):
            posts = timeline.node_end[self.graph.posts[self.graph.post_ptr[row] : self.graph.post_ptr[row + 1]]]
            virtual, real = posts[self.touching.virtual(op)], timeline.node_end[real_posts(self.touching, op)]
            assert clock.ready(op)
            assert clock.posts(op).tolist() == virtual.tolist()
            assert clock.last_post(op) == virtual.max(initial=NONE)
            assert clock.finish(op, real.tolist()) == timeline.op_end[row]
        assert clock.ends.tolist() == timeline.op_end[self.touching.op].tolist()

    def check_all(self, seed: int) -> None:
        """With the durations of the graph, longer ones, none at all, and any."""
        dice = np.random.default_rng(seed)
        calm, count = self.graph.nodes["duration"][self.free], int(self.free.sum())
        for computed in (calm, calm + dice.integers(0, 10_000_000, count), 0 * calm, dice.integers(0, 100, count)):
            self.check(computed)

    def paths(self, op: int) -> list[int]:
        """How many paths lead to each virtual post."""
        ptr = self.summary.path_ptr[self.summary.post_ptr[op] : self.summary.post_ptr[op + 1] + 1]
        return np.diff(ptr).tolist()


def real_posts(touching: Touching, op: int) -> Int64:
    return touching.node[touching.member_ptr[op] : touching.member_ptr[op + 1]]


@given(worlds(), SANDBOXES, st.integers(0, 2**32), st.sampled_from([0, 1, 3, virtual_paths.LIMIT]))
def test_answers_as_the_whole_world_would(graph: Graph, sandbox: list[int], seed: int, limit: int) -> None:
    with patch.object(virtual_paths, "LIMIT", limit):
        Emulated(graph, sandbox).check_all(seed)


@pytest.mark.parametrize("sandbox", [[0], [3], [0, 1], [0, 3], [1, 2, 3]])
@pytest.mark.parametrize("graph", [data_parallel(4), pipeline(4, 5), expert_parallel(4), two_dimensional(2, 2)])
def test_answers_parallel_programs_as_the_whole_world_would(graph: Graph, sandbox: list[int]) -> None:
    Emulated(graph, sandbox).check_all(seed=0)


@pytest.mark.parametrize("sandbox", [[0], [0, 1], [5, 30]])
def test_answers_a_large_job_as_the_whole_world_would(sandbox: list[int]) -> None:
    emulated = Emulated(generated(Shape(stages=4, replicas=4, shards=2, micro_batches=6, layers=2)), sandbox)
    assert len(emulated.touching.op) > 30
    emulated.check_all(seed=0)


@pytest.mark.parametrize("limit", [0, 1, 3, 5])
def test_answers_the_same_by_way_of_any_number_of_relays(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_paths, "LIMIT", limit)
    emulated = Emulated(generated(Shape(stages=4, replicas=4, shards=2, micro_batches=6, layers=2)), [0, 9])
    assert len(emulated.summary.need_ptr) - 1 > len(emulated.touching.op)
    emulated.check_all(seed=0)


def test_every_op_counts_where_hosts_compute_long_after_a_post() -> None:
    emulated = Emulated(overlapped(2, 9), [0])
    assert [emulated.paths(op) for op in range(9)] == [[1 + op] for op in range(9)]
    emulated.check_all(seed=0)


def test_paths_are_as_many_as_posts_where_hosts_compute_long_after_a_post(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_paths, "LIMIT", 4)
    emulated = Emulated(overlapped(2, 100), [0])
    assert max(sum(emulated.paths(op)) for op in range(100)) == 4
    assert len(emulated.summary.need_ptr) - 1 == 100 + 24
    emulated.check_all(seed=0)


def test_a_dominated_path_is_dropped() -> None:
    emulated = Emulated(data_parallel(4, iterations=2, buckets=3), [0])
    # In the second iteration each post follows from the last bucket of the first one, though all three were awaited.
    assert [emulated.paths(op) for op in range(6)] == [[1, 1, 1]] * 6
    assert emulated.summary.root.reshape(6, 3)[:, 0].tolist() == [0, 0, 0, 3, 3, 3]


@pytest.mark.parametrize(("computed", "paths"), [(100 + 10 + 10, [1, 1]), (100 + 10 + 10 + 1, [1, 2])])
def test_a_path_that_may_be_longer_is_kept(computed: int, paths: list[int]) -> None:
    job = Job(3)
    pair = job.group((0, 1))
    for rank in range(3):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 1))
    job.compute(1, 100)
    for rank in (0, 1):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 1, pair))  # costs 10
    job.send(1, 2, 1)  # costs 10
    arrived = job.recv(2, 1, 1)
    job.compute(2, computed)  # since the first op; or 10 after the second one, which comes at least 110 after the first
    job.wait(2, arrived)
    for rank in range(3):
        job.post(rank, OpKind.ALL_REDUCE, 1)
    emulated = Emulated(job.graph(), [0])
    assert emulated.paths(2) == paths
    emulated.check_all(seed=0)


def test_a_path_through_sandbox_ranks_alone_guarantees_nothing() -> None:
    job = Job(3)
    pair, other = job.group((0, 1)), job.group((0, 2))
    for rank, group in ((0, pair), (1, pair), (0, other), (2, other)):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 4, group))
    for rank in range(3):
        job.post(rank, OpKind.ALL_REDUCE, 4)
    job.send(1, 2, 4)
    job.wait(2, job.recv(2, 1, 4))
    job.post(2, OpKind.ALL_REDUCE, 4, other)
    job.post(0, OpKind.ALL_REDUCE, 4, other)
    emulated = Emulated(job.graph(), [0])
    # The last post follows from both first ops: rank 0 alone waited for the one before it posted the other.
    assert emulated.paths(3) == [2]
    emulated.check_all(seed=0)


def test_an_op_without_virtual_members_is_always_ready() -> None:
    job = Job(3)
    pair = job.group((0, 1))
    for rank in (0, 1):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 4, pair))
    for rank in range(3):
        job.post(rank, OpKind.ALL_REDUCE, 4)
    emulated = Emulated(job.graph(), [0, 1])
    clock = Clock(emulated.touching, emulated.summary, emulated.costs)
    first = int(emulated.touching.size.argmin())
    assert clock.ready(first)
    assert clock.posts(first).tolist() == []
    assert clock.last_post(first) == NONE
    assert clock.finish(first, [5, 9]) == 9 + emulated.costs[emulated.touching.op[first]]


def test_an_op_is_ready_once_what_its_virtual_posts_depend_on_has_ended() -> None:
    job = Job(2)
    for _ in range(2):
        for rank in (0, 1):
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 4))
    emulated = Emulated(job.graph(), [0])
    clock = Clock(emulated.touching, emulated.summary, emulated.costs)
    assert [clock.ready(0), clock.ready(1)] == [True, False]
    assert clock.ends.tolist() == [NONE, NONE]
    end = clock.finish(0, [100])
    assert clock.ready(1)
    assert clock.posts(1).tolist() == [end]
    assert clock.ends.tolist() == [end, NONE]


def test_an_op_is_unlocked_by_the_last_end_that_a_relay_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_paths, "LIMIT", 1)
    emulated = Emulated(overlapped(2, 4), [0])
    clock = Clock(emulated.touching, emulated.summary, emulated.costs)
    assert (clock.unlocked, [clock.ready(op) for op in range(4)]) == ([0], [True, False, False, False])
    for op in range(3):
        clock.finish(op, [0])
        assert clock.unlocked == [op + 1]
    clock.finish(3, [0])
    assert clock.unlocked == []


def test_a_sandbox_that_is_the_world_leaves_nothing_to_sum_up() -> None:
    emulated = Emulated(data_parallel(2), [0, 1])
    assert emulated.summary.ns.size == emulated.summary.need.size == 0
    emulated.check_all(seed=0)


def test_a_sandbox_without_ops_touches_nothing() -> None:
    emulated = Emulated(Job(2).graph(), [0])
    assert emulated.touching.op.size == emulated.summary.ns.size == 0
