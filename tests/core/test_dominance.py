"""Dominance: a path is dropped exactly if a later root of its point is told to give as much."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.emulation import dominance
from prism.core.emulation.dominance import Guarantees
from prism.core.emulation.paths import Paths

Root = tuple[dict[int, int], int, int]
"""The paths to a root, the end before it (-1: it is a relay), and its cost."""


def table(lengths: dict[int, dict[int, int]]) -> Paths:
    """Paths by point and root."""
    rows = [(point, root, ns) for point, row in sorted(lengths.items()) for root, ns in sorted(row.items())]
    return Paths(*np.array(rows, np.int64).reshape(-1, 3).T)


def told(*roots: Root, points: int = 20) -> Guarantees:
    """Guarantees of roots 1, 2, ..."""
    prev, cost = np.full(points, -1), np.zeros(points, np.int64)
    guarantees = Guarantees(prev, cost)
    for root, (paths, prev[root], cost[root]) in enumerate(roots, start=1):
        guarantees.tell(np.array([root]), table({root: paths}))
    return guarantees


def kept(guarantees: Guarantees, **lengths: dict[int, int]) -> list[list[int]]:
    """The roots that are left of each point."""
    paths = table({18 + number: row for number, row in enumerate(lengths.values())})
    left = paths.where(guarantees.undominated(paths))
    return [left.root[left.point == 18 + number].tolist() for number in range(len(lengths))]


@pytest.mark.parametrize(("length", "left"), [(115, [1]), (116, [0, 1])])
def test_an_end_comes_its_cost_after_its_posts(length: int, left: list[int]) -> None:
    assert kept(told(({0: 5}, 0, 10)), post={0: length, 1: 100}) == [left]


@pytest.mark.parametrize(("length", "left"), [(117, [2]), (118, [1, 2])])
def test_an_end_comes_its_cost_after_the_op_before_it(length: int, left: list[int]) -> None:
    guarantees = told(({0: 5}, 0, 10), ({0: 50}, 1, 17))
    assert kept(guarantees, post={1: length, 2: 100}) == [left]


def test_an_end_comes_its_cost_after_the_origin() -> None:
    assert kept(told(({}, 0, 10)), post={0: 20, 1: 10}) == [[1]]


@pytest.mark.parametrize(("length", "left"), [(105, [1]), (106, [0, 1])])
def test_a_relay_comes_when_its_paths_say(length: int, left: list[int]) -> None:
    assert kept(told(({0: 5}, -1, 0)), post={0: length, 1: 100}) == [left]


def test_nothing_is_guaranteed_without_a_path() -> None:
    assert kept(told(({0: 5}, 0, 10), ({0: 1}, 0, 10)), post={1: 0, 2: 100}) == [[1, 2]]


def test_nothing_is_guaranteed_of_an_earlier_root() -> None:
    assert kept(told(({0: 5}, 0, 10)), post={0: 100, 1: 0}) == [[0, 1]]


def test_roots_of_different_points_have_nothing_to_do_with_each_other() -> None:
    assert kept(told(({0: 5}, 0, 10)), one={0: 0}, other={1: 100}) == [[0], [1]]


def test_a_path_may_be_dominated_by_one_that_is_dominated_itself() -> None:
    assert kept(told(({0: 10}, 0, 0), ({1: 10}, 0, 0)), post={0: 25, 1: 15, 2: 5}) == [[2]]


def test_roots_that_are_far_apart_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dominance, "NEAR", 1)
    guarantees = told(({0: 5}, 0, 10), ({0: 5}, 0, 10))
    assert kept(guarantees, post={0: 0, 1: 100, 2: 100}, other={0: 0, 2: 100}) == [[1, 2], [2]]


@st.composite
def systems(draw: st.DrawFn) -> tuple[list[Root], list[dict[int, int]], list[int]]:
    """Roots, posts with the paths to them, and by how much each root that is an end comes later than it must."""
    roots: list[Root] = []
    for root in range(1, draw(st.integers(2, 7))):
        is_end = draw(st.booleans())
        paths = draw(st.dictionaries(st.integers(0, root - 1), st.integers(0, 4), min_size=not is_end, max_size=3))
        roots.append((paths, draw(st.integers(0, root - 1)) if is_end else -1, draw(st.integers(0, 3)) * is_end))
    post = st.dictionaries(st.integers(0, len(roots)), st.integers(0, 12), min_size=1)
    late = draw(st.lists(st.integers(0, 6), min_size=len(roots), max_size=len(roots)))
    return roots, draw(st.lists(post, min_size=1, max_size=2)), late


@given(systems())
def test_what_is_left_gives_the_same_times(system: tuple[list[Root], list[dict[int, int]], list[int]]) -> None:
    roots, posts, late = system
    value = [0]
    for (paths, prev, cost), more in zip(roots, late, strict=True):
        before = [value[root] + ns for root, ns in paths.items()] + [value[prev] for prev in [prev] if prev >= 0]
        value.append(max(before) + cost + (more if prev >= 0 else 0))
    left = kept(told(*roots), **{str(number): post for number, post in enumerate(posts)})
    assert [max(value[root] + post[root] for root in some) for some, post in zip(left, posts, strict=True)] == [
        max(value[root] + ns for root, ns in post.items()) for post in posts
    ]
