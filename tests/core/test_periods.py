"""The piece that repeats, in sequences written as letters: each letter is a code and a series of its own."""

from __future__ import annotations

import numpy as np
import pytest

from prism.core.what_if.periods import ANY, Period, Walk, longest_period


def period(letters: str, share: dict[str, int], more: int) -> Period | None:
    """Letters without a share are worth any number."""
    series = sorted(set(letters))
    codes = np.array([series.index(letter) for letter in letters])
    shares = np.array([share.get(letter, ANY) for letter in series])
    return longest_period(Walk(codes, np.arange(len(letters)), codes), shares, more)


EACH = {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("aaababababbb", Period(3, 2, 3, 2)),
        ("xababy", Period(2, 2, 1, 2)),
        ("pacbdacbdacbq", Period(2, 4, 2, 2)),
        ("aabbaabb", Period(1, 4, 1, 1)),
    ],
)
def test_it_begins_behind_the_first_step_that_comes_again(letters: str, expected: Period) -> None:
    assert period(letters, EACH, 2) == expected


@pytest.mark.parametrize("letters", ["aaabbb", "abba", "ab", "axbxyaxxb", "abxab"])
def test_what_does_not_come_again_has_no_period(letters: str) -> None:
    assert period(letters, EACH, 2) is None


def test_series_of_no_share_are_kept_out() -> None:
    assert period("afafafbfbfb", {"a": 1, "b": 0}, 3) == Period(1, 2, 2, 3)
    assert period("bababab", {"a": 1, "b": 0}, 3) is None


def test_a_share_may_be_of_several() -> None:
    assert period("aabaabaab", {"a": 2, "b": 1}, 1) == Period(1, 3, 2, 1)
    assert period("abababab", {"a": 2, "b": 2}, 3) == Period(1, 2, 3, 6)


def test_several_shares_may_be_one_piece() -> None:
    letters = "aabbaabbaabb"
    assert period(letters, EACH, 4) == Period(1, 4, 2, 2)
    assert period(letters, EACH, 3) is None


def test_of_two_pieces_the_one_that_goes_on_longest() -> None:
    assert period("abxabx" + "ab" * 4, EACH, 1) == Period(7, 2, 3, 1)


def test_fewer_is_more_below_zero() -> None:
    assert period("ababab", EACH, -1) == Period(1, 2, 2, -1)
