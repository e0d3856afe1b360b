"""The longest paths among virtual ranks, however many of their points are relays."""

from __future__ import annotations

import pytest

from benchmarks.generated import Shape
from benchmarks.generated import graph as generated
from prism.core.emulation import dominance, virtual_paths
from prism.core.emulation.virtual_paths import VirtualPaths, longest_paths
from prism.core.emulation.virtual_points import VirtualPoints
from prism.core.graph import Graph, OpKind
from tests.core.jobs import Job, overlapped
from tests.core.test_virtual_points import points_of

Lengths = dict[int, int]
"""ns by root."""


def longest(points: VirtualPoints) -> list[Lengths]:
    """The longest path to each virtual post from the origin and from each end, found point by point."""
    ends = set(points.end.tolist())
    reached: list[Lengths] = [{0: 0}]
    for point in range(1, len(points)):
        found: Lengths = {}
        for edge in range(points.edge_ptr[point], points.edge_ptr[point + 1]):
            longer(found, reached[points.source[edge]], int(points.weight[edge]))
        reached.append({point: 0} if point in ends else found)
    posts = []
    for edge in points.posts():
        posts.append({})
        longer(posts[-1], reached[points.source[edge]], int(points.weight[edge]))
    return posts


def longer(found: Lengths, lengths: Lengths, ns: int) -> None:
    for root, length in lengths.items():
        found[root] = max(found.get(root, length + ns), length + ns)


def rows(paths: VirtualPaths, posts: int) -> list[Lengths]:
    """The paths to each virtual post from the origin and from ends, also those by way of relays."""
    to: dict[int, Lengths] = {}
    for point, root, ns in zip(*(column.tolist() for column in paths.to_roots), strict=True):
        if point in paths.relays:
            longer(to.setdefault(point, {}), to.get(root, {root: 0}), ns)
    found: list[Lengths] = [{} for _ in range(posts)]
    for post, root, ns in zip(*(column.tolist() for column in paths.to_posts), strict=True):
        longer(found[post], to.get(root, {root: 0}), ns)
    return found


def test_paths_go_through_virtual_ranks_up_to_the_next_touching_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dominance, "NEAR", 0)
    job = Job(4)
    virtual = job.group((1, 2, 3))
    for rank in range(4):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 1))  # touches
        job.compute(rank, 100 * rank)
    for rank in (1, 2, 3):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 1, virtual))  # takes 10, begins with rank 3
    job.compute(1, 5)
    for rank in range(4):
        job.post(rank, OpKind.ALL_REDUCE, 1)  # touches
    points = points_of(job.graph(), [0])
    first = int(points.end[0])
    # In the second op each post has two paths: the one from the origin goes through the lanes' waits, not the first op.
    second = [{0: ns, first: ns} for ns in (315, 310, 310)]
    assert rows(longest_paths(points), 6) == [{0: 0}, {0: 0}, {0: 0}, *second]


@pytest.mark.parametrize("limit", [0, 1, 2, 5, 64])
@pytest.mark.parametrize(
    ("graph", "sandbox"),
    [
        (overlapped(2, 30), [0]),
        (overlapped(4, 12), [1, 2]),
        (generated(Shape(stages=4, replicas=2, shards=2, micro_batches=3, layers=2)), [0, 9]),
    ],
)
def test_relays_lead_on_all_paths(
    graph: Graph, sandbox: list[int], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dominance, "NEAR", 0)
    monkeypatch.setattr(virtual_paths, "LIMIT", limit)
    points = points_of(graph, sandbox)
    expected = longest(points)
    assert max(map(len, expected)) > 5
    assert rows(longest_paths(points), len(expected)) == expected


def test_no_path_is_longer_than_the_longest_where_some_are_dominated() -> None:
    points = points_of(generated(Shape(stages=4, replicas=4, shards=2, micro_batches=6, layers=2)), [0, 9])
    expected = longest(points)
    found = rows(longest_paths(points), len(expected))
    assert sum(map(len, found)) < sum(map(len, expected)) / 2
    assert all(ns <= longest[root] for some, longest in zip(found, expected, strict=True) for root, ns in some.items())


def test_relays_are_where_more_than_so_many_paths_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_paths, "LIMIT", 4)
    paths = longest_paths(points_of(overlapped(2, 10), [0]))
    counts = [(paths.to_posts.point == post).sum() for post in range(10)]
    # Of the origin and as many ends; a fifth path makes a relay of the wait that it comes through.
    assert counts == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert len(paths.relays) == 2
    assert all((paths.to_roots.point == point).sum() == 5 for point in paths.relays)
