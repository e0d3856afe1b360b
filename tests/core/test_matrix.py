"""The communication matrix, each kind of operation by itself."""

from __future__ import annotations

import numpy as np
import pytest

from prism.core.graph import OpKind
from prism.core.timeline.matrix import Trees, communication_matrix
from prism.core.timeline.tree_links import tree_links
from tests.core.double_tree import parents
from tests.core.jobs import Job

GROUP = (3, 1, 2)  # not in the order of ranks: the ring is that of group ranks


def moved(kind: OpKind, nbytes: int, root: int = -1, splits: tuple[int, ...] = ()) -> dict[tuple[int, int], int]:
    job = Job(4)
    group = job.group(GROUP)
    for rank in GROUP:
        job.wait(rank, job.post(rank, kind, nbytes, group, root, splits))
    matrix = communication_matrix(job.graph(), np.arange(4))
    return {(int(i), int(j)): int(matrix[i, j]) for i, j in np.argwhere(matrix)}


def ring(nbytes: int) -> dict[tuple[int, int], int]:
    return {(3, 1): nbytes, (1, 2): nbytes, (2, 3): nbytes}


@pytest.mark.parametrize(
    ("kind", "root", "expected"),
    [
        (OpKind.ALL_REDUCE, -1, ring(400)),
        (OpKind.REDUCE_SCATTER, -1, ring(200)),
        (OpKind.ALL_GATHER, -1, ring(600)),
        (OpKind.BROADCAST, 1, {(1, 2): 300, (2, 3): 300}),
        (OpKind.REDUCE, 1, {(2, 1): 300, (3, 2): 300}),
        (OpKind.GATHER, 1, {(3, 1): 300, (2, 1): 300}),
        (OpKind.SCATTER, 1, {(1, 3): 100, (1, 2): 100}),
        (OpKind.BARRIER, -1, {}),
    ],
)
def test_collectives_go_along_their_rings_chains_and_pairs(
    kind: OpKind, root: int, expected: dict[tuple[int, int], int]
) -> None:
    assert moved(kind, 300, root) == expected


def test_an_all_to_all_goes_as_it_is_split_and_nothing_to_oneself() -> None:
    splits = (7, 1, 2, 3, 7, 4, 5, 0, 7)
    expected = {(3, 1): 1, (3, 2): 2, (1, 3): 3, (1, 2): 4, (2, 3): 5}
    assert moved(OpKind.ALL_TO_ALL, 14, splits=splits) == expected


def test_messages_are_exact_add_up_and_are_counted_where_their_ranks_count() -> None:
    job = Job(4)
    for nbytes, target in ((10, 1), (20, 1), (5, 3)):
        job.send(0, target, nbytes)
        job.wait(target, job.recv(target, 0, nbytes))
    graph = job.graph()
    assert communication_matrix(graph, np.arange(4))[0].tolist() == [0, 30, 0, 5]
    assert communication_matrix(graph, np.array([0, 0, 1, 1])).tolist() == [[30, 5], [0, 0]], "by nodes of two ranks"


def test_a_group_of_one_moves_nothing() -> None:
    job = Job(1)
    job.wait(0, job.post(0, OpKind.ALL_REDUCE, 100))
    assert communication_matrix(job.graph(), np.arange(1)).tolist() == [[0]]


@pytest.mark.parametrize("members", [2, 3, 4, 7, 8, 13, 64])
def test_links_of_trees_are_those_of_halves_of_halves(members: int) -> None:
    expected = sorted((child, up) for tree in parents(members) for child, up in enumerate(tree) if up >= 0)
    assert sorted(map(tuple, tree_links(list(range(members))).tolist())) == expected


def test_sums_along_trees_go_up_and_down_each_link_by_halves() -> None:
    job = Job(4)
    group = job.group((0, 1, 2, 3))
    for rank in range(4):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 300, group))
    graph = job.graph()
    matrix = communication_matrix(graph, np.arange(4), Trees(np.array([True]), ranks_per_node=2))
    moved = {(int(i), int(j)): int(matrix[i, j]) for i, j in np.argwhere(matrix)}
    assert moved == {(0, 1): 300, (1, 0): 300, (2, 3): 300, (3, 2): 300, (2, 0): 300, (0, 2): 300}
    assert communication_matrix(graph, np.arange(4), Trees(np.array([False]), 2)).tolist() == [
        [0, 450, 0, 0], [0, 0, 450, 0], [0, 0, 0, 450], [450, 0, 0, 0],
    ]  # fmt: skip
