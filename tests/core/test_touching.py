"""Group reduction: which ops touch the sandbox, who is real in them, and how many virtual members lie between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.emulation.touching import Side, Touching, find_touching, side
from prism.core.graph import Graph, Group, NodeKind, OpKind
from prism.core.timeline.replay import evaluate, make_plan
from tests.core.jobs import Job, data_parallel, expert_parallel, pipeline, two_dimensional
from tests.core.test_replay import WORLD, costs_of, programs

SANDBOXES = st.lists(st.integers(0, WORLD - 1), min_size=1, unique=True)


def touching_of(graph: Graph, sandbox: Sequence[int]) -> Touching:
    plan = make_plan(graph)
    timeline = evaluate(plan, graph.nodes["duration"], costs_of(graph))
    return find_touching(graph, plan, timeline.op_start, sandbox)


def members(touching: Touching, op: int) -> list[tuple[int, int, int]]:
    """Place, global rank and arc of each sandbox member."""
    rows = slice(touching.member_ptr[op], touching.member_ptr[op + 1])
    columns = (touching.member[rows], touching.rank[rows], touching.arc[rows])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def ring(size: int, ranks: Sequence[int] = ()) -> Job:
    """One all_reduce over a group of these ranks, left out: all."""
    job = Job(size)
    group = job.group(ranks) if ranks else 0
    for rank in ranks or range(size):
        job.post(rank, OpKind.ALL_REDUCE, 4, group)
    return job


def test_one_sandbox_rank_has_all_others_in_its_arc() -> None:
    touching = touching_of(ring(5).graph(), [3])
    assert members(touching, 0) == [(3, 3, 4)]
    assert touching.virtual(0).tolist() == [4, 0, 1, 2]


def test_arcs_lie_between_sandbox_members_and_go_round() -> None:
    touching = touching_of(ring(8).graph(), [6, 2, 3])
    assert touching.sandbox == (2, 3, 6)
    assert members(touching, 0) == [(2, 2, 0), (3, 3, 2), (6, 6, 3)]
    assert touching.virtual(0).tolist() == [4, 5, 7, 0, 1]


def test_places_are_group_ranks() -> None:
    touching = touching_of(ring(8, ranks=(5, 1, 7, 0)).graph(), [7])
    assert members(touching, 0) == [(2, 7, 3)]
    assert touching.virtual(0).tolist() == [3, 0, 1]


def test_a_message_has_a_virtual_end_or_none() -> None:
    job = Job(4)
    for sender, receiver in ((0, 1), (1, 2), (2, 0), (2, 3)):
        job.send(sender, receiver, 4)
        job.recv(receiver, sender, 4)
    graph = job.graph()
    touching = touching_of(graph, [0, 1])
    ends = {tuple(graph.node_rank()[graph.posts[2 * op : 2 * op + 2]]): k for k, op in enumerate(touching.op)}
    assert {pair: members(touching, k) for pair, k in ends.items()} == {
        (0, 1): [(0, 0, 0), (1, 1, 0)],
        (1, 2): [(0, 1, 1)],
        (2, 0): [(1, 0, 1)],
    }
    assert [touching.virtual(ends[pair]).tolist() for pair in ((0, 1), (1, 2), (2, 0))] == [[], [1], [0]]


def test_only_the_groups_of_sandbox_ranks_exist() -> None:
    graph = two_dimensional(replicas=4, shards=2)
    touching = touching_of(graph, [2])
    assert [graph.groups[row].name for row in touching.groups] == ["tp1", "dp0"]


def test_ops_are_numbered_in_the_order_in_which_they_start() -> None:
    job = Job(3)
    first, second = job.group((0, 1), "first"), job.group((0, 2), "second")
    for rank, delay, group in ((1, 50, first), (2, 10, second)):
        job.compute(rank, delay)
        job.post(rank, OpKind.ALL_REDUCE, 4, group)
    handles = [job.post(0, OpKind.ALL_REDUCE, 4, group) for group in (first, second)]
    job.wait(0, *handles)
    touching = touching_of(job.graph(), [0])
    assert touching.op.tolist() == [1, 0]
    assert touching.posts(0).tolist() == [1, 0]


@given(programs(), SANDBOXES)
def test_columns_say_what_a_walk_over_the_ops_says(graph: Graph, sandbox: list[int]) -> None:
    touching, rank_of = touching_of(graph, sandbox), graph.node_rank()
    seen = {}
    for op in range(len(graph.ops)):
        posts = graph.posts[graph.post_ptr[op] : graph.post_ptr[op + 1]]
        real = [(place, int(rank_of[node])) for place, node in enumerate(posts) if rank_of[node] in sandbox]
        if real:
            seen[op] = real
    assert sorted(touching.op.tolist()) == list(seen)
    assert set(touching.groups.tolist()) == {int(graph.ops["group"][op]) for op in seen}
    for k, op in enumerate(touching.op.tolist()):
        told = members(touching, k)
        assert touching.number[op] == k
        assert [(place, rank) for place, rank, _ in told] == seen[op]
        virtual = touching.virtual(k).tolist()
        assert sorted([place for place, _, _ in told] + virtual) == list(range(touching.size[k]))
        assert sum(arc for _, _, arc in told) == len(virtual)


@pytest.mark.parametrize("sandbox", [[0], [2, 3]])
@pytest.mark.parametrize("graph", [data_parallel(4), pipeline(4, 3), two_dimensional(2, 2)])
def test_ops_come_after_those_they_depend_on(graph: Graph, sandbox: list[int]) -> None:
    plan, free = make_plan(graph), np.zeros(len(graph.ops), np.int64)
    at_once = np.zeros(len(graph.nodes), np.int64)  # then all ops start at one time, and only their order is left
    touching = find_touching(graph, plan, evaluate(plan, at_once, free).op_start, sandbox)
    for op in range(len(touching.op)):
        free[touching.op[op]] = 1
        depend = touching.number[np.flatnonzero(evaluate(plan, at_once, free).op_start)]
        assert (depend[depend >= 0] > op).all()
        free[touching.op[op]] = 0


@given(programs(), SANDBOXES)
def test_a_ranks_posts_are_in_program_order(graph: Graph, sandbox: list[int]) -> None:
    touching = touching_of(graph, sandbox)
    for rank in sandbox:
        posted: list[int] = []
        for node in np.flatnonzero(graph.node_rank() == rank):
            kind, ref = graph.nodes[["kind", "ref"]][node]
            if kind == NodeKind.POST:
                posted.append(int(touching.number[ref]))
        assert touching.posts(rank).tolist() == posted


@pytest.mark.parametrize("graph", [data_parallel(4), pipeline(4, 3), expert_parallel(4), two_dimensional(2, 2)])
def test_the_op_before_in_its_channel_touches_too(graph: Graph) -> None:
    touching = touching_of(graph, [1])
    prev = graph.ops["prev"][touching.op]
    assert touching.prev.tolist() == [-1 if op < 0 else touching.number[op] for op in prev]
    assert (touching.number[prev[prev >= 0]] >= 0).all()


def test_what_a_member_of_a_collective_posts() -> None:
    job = Job(4)
    group = job.group((3, 1, 2), "some")
    for rank in (1, 2, 3):
        job.post(rank, OpKind.REDUCE, 16, group, root=2)
    graph = job.graph()
    expected = Side(OpKind.REDUCE, "sum", "float32", Group("some", (3, 1, 2)), 2, -1, -1, False, 16)
    assert [side(graph, int(node)) for node in graph.posts] == [expected] * 3


def test_what_the_ends_of_a_message_post() -> None:
    job = Job(4)
    group = job.group((3, 1, 2), "some")
    job.send(2, 3, 8, group, tag=7)
    job.recv(3, 2, 8, group, tag=7)
    graph = job.graph()
    sent = Side(OpKind.SEND_RECV, "none", "float32", Group("some", (3, 1, 2)), -1, 0, 7, True, 8)
    assert [side(graph, int(node)) for node in graph.posts] == [sent, sent._replace(peer=2, sends=False)]


@pytest.mark.parametrize(
    ("sandbox", "words"),
    [
        ([], "at least one"),
        ([1, 1], r"sandbox ranks \[1, 1\]: name each once"),
        ([4], "rank 4 is outside the world; valid ranks are 0 to 3"),
    ],
)
def test_a_sandbox_that_cannot_be_is_refused(sandbox: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        touching_of(ring(4).graph(), sandbox)
