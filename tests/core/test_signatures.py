"""Signatures: which ranks do the same."""

from __future__ import annotations

import pytest

from prism.core.graph import Graph, OpKind
from prism.core.measuring.signatures import ranks_alike
from tests.core.jobs import Job, data_parallel, expert_parallel, pipeline, two_dimensional


def broadcast() -> Graph:
    """From rank 2."""
    job = Job(4)
    for rank in range(4):
        job.wait(rank, job.post(rank, OpKind.BROADCAST, 64, root=2))
    return job.graph()


def ring(tags: tuple[int, ...] = (0, 0, 0, 0)) -> Graph:
    """Each rank sends to the next one, then receives."""
    job = Job(4)
    for rank in range(4):
        job.compute(rank, 1)
        job.send(rank, (rank + 1) % 4, 8, tag=tags[rank])
        job.wait(rank, job.recv(rank, (rank - 1) % 4, 8, tag=tags[rank - 1]))
        job.mark(rank)
    return job.graph()


def groups_of(*sizes: int) -> Graph:
    """Ranks all-reduce in groups of these sizes."""
    job, first = Job(sum(sizes)), 0
    for size in sizes:
        ranks = range(first, first + size)
        group, first = job.group(ranks), first + size
        for rank in ranks:
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 8, group))
    return job.graph()


@pytest.mark.parametrize(
    ("graph", "classes"),
    [
        (data_parallel(4), [(0, 1, 2, 3)]),
        (two_dimensional(2, 2), [(0, 1, 2, 3)]),
        (pipeline(5, 3), [(0,), (1, 2, 3), (4,)]),
        (expert_parallel(4), [(0,), (1, 2, 3)]),
        (ring(), [(0, 1, 2, 3)]),
        (ring(tags=(5, 6, 7, 8)), [(0, 1, 2, 3)]),
        (broadcast(), [(0, 1, 3), (2,)]),
        (groups_of(2, 3, 2), [(0, 1, 5, 6), (2, 3, 4)]),
    ],
    ids=["dp", "dp x tp", "stages", "hot expert", "peers", "tags", "root", "group sizes"],
)
def test_ranks_that_do_the_same(graph: Graph, classes: list[tuple[int, ...]]) -> None:
    assert ranks_alike(graph) == classes


def test_ranks_that_end_a_different_number_of_iterations_are_not_alike() -> None:
    job = Job(2)
    for rank, iterations in enumerate((2, 3)):
        for _ in range(iterations):
            job.compute(rank, 1)
            job.mark(rank)
    assert ranks_alike(job.graph()) == [(0,), (1,)]


def test_the_same_operation_from_another_line_is_another_thing() -> None:
    graph = data_parallel(4)
    graph.nodes["site"][graph.node_rank() == 1] = 7
    assert ranks_alike(graph) == [(0, 2, 3), (1,)]


def test_ranks_can_be_set_apart() -> None:
    assert ranks_alike(data_parallel(4), apart=(1, 3)) == [(0, 2), (1,), (3,)]
