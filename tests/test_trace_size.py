"""The benchmark of PrismTrace against torch's profiler, as far as it needs no quiet machine."""

from __future__ import annotations

import pytest

from benchmarks.trace_size import ALONE, JOBS, calibrated, plain, size


@pytest.mark.parametrize(("script", "ranks"), JOBS, ids=lambda given: str(getattr(given, "stem", given)))
def test_a_trace_is_a_hundredth_of_the_profilers(script, ranks):  # type: ignore[no-untyped-def]
    found = size(script, ranks, iterations=7)
    assert 0 < 100 * found.prism < found.profiler


def test_both_ways_of_timing_find_an_iteration() -> None:
    assert plain(ALONE, iterations=7) > 0
    assert calibrated(ALONE, iterations=7) > 0
