"""The record of a rank, and of its first iterations."""

from __future__ import annotations

import pytest

from prism.core.record import MarkStep, RankRecord, WaitStep

STEPS = [WaitStep((1,), "a"), MarkStep(), WaitStep((2,), "b"), WaitStep((3,), "c"), MarkStep(), WaitStep((4,), "d")]


@pytest.mark.parametrize(("iterations", "steps"), [(1, 2), (2, 5), (3, 6), (0, 6)])
def test_the_first_iterations(iterations: int, steps: int) -> None:
    assert RankRecord(3, STEPS).until(iterations) == RankRecord(3, STEPS[:steps])
