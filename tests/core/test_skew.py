"""How tokens are dealt when one member gets more than its share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.what_if.skew import skewed


@st.composite
def deals(draw: st.DrawFn) -> tuple[np.ndarray, float]:
    """A matrix of tokens sent, and how hot the hottest shall be."""
    n = draw(st.integers(2, 5))
    cells = draw(st.lists(st.integers(0, 10_000), min_size=n * n, max_size=n * n))
    return np.array(cells).reshape(n, n), draw(st.floats(1, n))


@given(deals())
def test_each_sender_sends_as_much_and_no_member_gets_more_than_the_hottest(deal: tuple[np.ndarray, float]) -> None:
    sent, hottest = deal
    (dealt,) = skewed(sent[None], hottest)
    assert (dealt >= 0).all()
    assert dealt.sum(axis=1).tolist() == sent.sum(axis=1).tolist()
    most = hottest * sent.sum(axis=1) / len(sent)
    busiest = sent.sum(axis=0).argmax()
    assert (np.abs(dealt[:, busiest] - most) <= 1).all()
    assert (dealt <= most[:, None] + 1).all()


@given(deals())
def test_at_1_all_parts_are_even(deal: tuple[np.ndarray, float]) -> None:
    (dealt,) = skewed(deal[0][None], 1)
    assert (np.ptp(dealt, axis=1) <= 1).all()


@pytest.mark.parametrize(
    ("sent", "hottest", "dealt"),
    [
        ([10, 20, 30, 40], 1.6, [10, 20, 30, 40]),  # as it is
        ([10, 20, 30, 40], 2.8, [5, 10, 15, 70]),  # the others in their proportions
        ([10, 10, 40, 40], 1.2, [20, 20, 30, 30]),  # the first of the busiest; no other gets more
        ([0, 0, 0, 30], 2, [5, 5, 5, 15]),  # nothing has no proportions
        ([0, 0, 10, 90], 1.6, [10, 10, 40, 40]),  # 60 would be more than the hottest gets
        ([0, 0, 0, 0], 3, [0, 0, 0, 0]),
    ],
)
def test_parts(sent: list[int], hottest: float, dealt: list[int]) -> None:
    assert skewed(np.array([[sent] * 4]), hottest).tolist() == [[dealt] * 4]
