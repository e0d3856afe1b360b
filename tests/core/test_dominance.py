"""Dominance: a path is dropped exactly if a later root is guaranteed to give as much."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.emulation import dominance
from prism.core.emulation.dominance import Guarantees, undominated
from prism.core.emulation.virtual_paths import ANY, NONE

NOTHING = np.zeros(0, np.int64)


def told(*ends: tuple[dict[int, int], int, int]) -> Guarantees:
    """Guarantees of roots 1, 2, ...: from which roots paths lead to their posts, prev, cost."""
    guarantees = Guarantees(1 + len(ends))
    for root, (paths, prev, cost) in enumerate(ends, start=1):
        guarantees.tell(root, np.array(list(paths), np.int64), np.array(list(paths.values()), np.int64), prev, cost)
    return guarantees


def between(guarantees: Guarantees, earlier: int, later: int) -> int | None:
    least = int(guarantees.between(np.array([earlier]), later)[0])
    return least if least > ANY else None


def test_an_end_comes_its_cost_after_its_latest_post() -> None:
    guarantees = told(({0: 5}, 0, 10), ({0: 7, 1: 3}, 0, 100))
    assert between(guarantees, 0, 1) == 15
    assert between(guarantees, 1, 2) == 103
    assert between(guarantees, 0, 2) == 118  # by way of root 1


def test_an_end_comes_its_cost_after_the_op_before_it() -> None:
    guarantees = told(({0: 5}, 0, 10), ({0: 1}, 1, 100))
    assert between(guarantees, 1, 2) == 100
    assert between(guarantees, 0, 2) == 115


def test_every_end_comes_its_cost_after_the_origin() -> None:
    assert between(told(({}, 0, 10)), 0, 1) == 10


def test_nothing_is_guaranteed_without_a_path() -> None:
    assert between(told(({0: 5}, 0, 10), ({0: 1}, 0, 10)), 1, 2) is None


def test_what_is_too_far_back_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dominance, "SPAN", 2)
    guarantees = told(({0: 1}, 0, 0), ({1: 1}, 0, 0), ({2: 1}, 0, 0))
    assert [between(guarantees, root, 3) for root in range(3)] == [None, None, 1]


@pytest.mark.parametrize(("length", "kept"), [(115, False), (116, True)])
def test_a_path_is_dropped_if_a_later_one_always_gives_as_much(length: int, kept: bool) -> None:
    lengths = np.array([[length, length, NONE], [100, NONE, 100]])
    found = undominated(lengths, np.array([0, 1]), told(({0: 5}, 0, 10)))
    assert found.tolist() == [[kept, True, False], [True, False, True]]


def test_a_dropped_path_may_be_dropped_by_one_that_is_dropped_itself() -> None:
    guarantees = told(({0: 10}, 0, 0), ({1: 10}, 0, 0))
    assert undominated(np.array([[25], [12], [5]]), np.array([0, 1, 2]), guarantees).tolist() == [
        [False],
        [False],
        [True],
    ]


@st.composite
def systems(draw: st.DrawFn) -> tuple[list[tuple[dict[int, int], int, int]], list[dict[int, int]], list[int]]:
    """Roots, posts with the paths to them, and by how much each root ends later than it must."""
    roots = []
    for root in range(1, draw(st.integers(2, 7))):
        paths = draw(st.dictionaries(st.integers(0, root - 1), st.integers(0, 4), max_size=3))
        roots.append((paths, draw(st.integers(0, root - 1)), draw(st.integers(0, 3))))
    post = st.dictionaries(st.integers(0, len(roots)), st.integers(0, 12), min_size=1)
    late = draw(st.lists(st.integers(0, 6), min_size=len(roots), max_size=len(roots)))
    return roots, draw(st.lists(post, min_size=1, max_size=3)), late


@given(systems())
def test_what_is_left_gives_the_same_times(
    system: tuple[list[tuple[dict[int, int], int, int]], list[dict[int, int]], list[int]],
) -> None:
    roots, posts, late = system
    end = [0]
    for (paths, prev, cost), more in zip(roots, late, strict=True):
        end.append(max([end[prev], *(end[root] + ns for root, ns in paths.items())]) + cost + more)
    lengths = np.array([[post.get(root, NONE) for post in posts] for root in range(len(end))])
    kept = undominated(lengths, np.arange(len(end)), told(*roots))
    times = np.where(kept, lengths + np.array(end)[:, None], NONE).max(axis=0)
    assert times.tolist() == [max(end[root] + ns for root, ns in post.items()) for post in posts]
