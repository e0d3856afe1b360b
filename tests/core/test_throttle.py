"""Windows in which computing is slower."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.timeline.throttle import Throttle


@pytest.mark.parametrize(
    ("start", "work", "end"),
    [
        (0, 100, 100),  # over before the window
        (0, 150, 200),  # 50 of it take twice as long
        (100, 50, 200),
        (150, 100, 275),  # 25 in the window, 75 after it
        (0, 300, 350),  # the whole window makes it 50 longer
        (200, 1000, 1200),
    ],
)
def test_one_window(start: int, work: int, end: int) -> None:
    assert Throttle((0,), 2.0, since=100, until=200).finish(start, work) == end


@pytest.mark.parametrize(
    ("start", "work", "end"), [(0, 150, 200), (0, 1500, 2000), (1000, 150, 1200), (250, 750, 1250)]
)
def test_windows_that_come_again(start: int, work: int, end: int) -> None:
    # Every 200 ns, 100 at half speed and 100 at full speed: 150 ns of work.
    assert Throttle((0,), 2.0, since=0, until=100, period=200).finish(start, work) == end


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_work_can_be_cut_in_two(start: int, first: int, second: int) -> None:
    throttle = Throttle((0,), 2.0, since=37, until=137, period=150)
    whole = throttle.finish(start, first + second)
    assert abs(throttle.finish(throttle.finish(start, first), second) - whole) <= 1


@pytest.mark.parametrize(
    ("window", "words"),
    [((5, 5, None), "must end later"), ((0, 10, 9), "does not fit"), ((0, None, 9), "does not fit")],
)
def test_empty_and_overlapping_windows_are_refused(window: tuple[int, int | None, int | None], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Throttle((0,), 2.0, *window)


def test_a_long_computation_takes_its_periods_at_one_stroke() -> None:
    throttle = Throttle((0,), 1e6, since=50, until=1_000_049, period=1_000_000)
    assert throttle.finish(0, 50 + 10**9) == 50 + 10**15
