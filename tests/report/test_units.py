"""Quantities as people read them."""

from __future__ import annotations

import pytest

from prism.report import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1500, "1.50 µs"), (12_345_678, "12.3 ms"), (2 * 10**9, "2.00 s")],
)
def test_a_time_has_the_largest_unit_that_keeps_it_above_one(ns: int, text: str) -> None:
    assert units.time(ns) == text


def test_a_column_has_one_unit() -> None:
    assert [units.time(ns, like=25_000_000) for ns in (25_000_000, 30_000)] == ["25.0 ms", "0.0 ms"]
    assert units.size(1 << 20, like=1 << 30) == "0.00 GiB"


def test_sizes_are_powers_of_1024() -> None:
    assert [units.size(n) for n in (0, 1023, 1536, 3 << 29)] == ["0 B", "1,023 B", "1.50 KiB", "1.50 GiB"]


def test_neighbouring_ranks_are_joined() -> None:
    assert units.rank_ranges([7, 2, 1, 0, 9, 8, 4]) == "0-2, 4, 7-9"
    assert units.rank_ranges([]) == ""
