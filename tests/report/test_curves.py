"""Sweeps as lines: what is an axis, what a line of its own, and where the points lie."""

from __future__ import annotations

import pytest

from prism.report.curves import draw_curves, number_of
from prism.result import WhatIfResult


def variant(name: str, slowdown: float | None) -> WhatIfResult:
    return WhatIfResult(name=name, iteration_ns_median=slowdown and round(slowdown * 1e6), slowdown=slowdown)


def test_a_sweep_is_a_line_in_the_order_of_its_values() -> None:
    (chart,) = draw_curves([variant("hot factor=2", 1.4), variant("alone", 3.0), variant("hot factor=1.5", 1.2)])
    (line,) = chart.curves
    assert (chart.name, chart.key) == ("hot", "factor")
    assert [(point.value, point.slowdown) for point in line.points] == [("1.5", "1.200x"), ("2", "1.400x")]
    low, high = line.points
    assert low.x < high.x
    assert high.y < low.y < chart.base, "slower is higher, and the prediction below both"
    assert chart.told == "Slowdown of hot over factor: 1.5 1.200x, 2 1.400x"


def test_with_two_keys_the_longer_one_is_the_axis() -> None:
    rows = [
        variant(f"net latency={latency} bandwidth={rate}", 1 + latency_us / 10 + index / 20)
        for latency, latency_us in (("1us", 1), ("2us", 2))
        for index, rate in enumerate(("100GB/s", "25GB/s", "1GB/s"))
    ]
    (chart,) = draw_curves(rows)
    assert chart.key == "bandwidth"
    assert [line.label for line in chart.curves] == ["latency 1us", "latency 2us"]
    xs = [point.x for point in chart.curves[0].points]
    assert xs[1] - xs[0] > xs[2] - xs[1], "by magnitudes: from 1 to 25 is more than from 25 to 100"


@pytest.mark.parametrize(
    "names", [["a ranks=0,1", "a ranks=2,3"], ["a kind=rail", "a kind=node"], ["a x=1"], ["a", "b"], ["a x=1", "a y=2"]]
)
def test_what_is_no_row_of_numbers_is_no_line(names: list[str]) -> None:
    assert draw_curves([variant(name, 1.0) for name in names]) == []


def test_variants_that_stall_have_no_point() -> None:
    assert draw_curves([variant("a x=1", None), variant("a x=2", 1.1)]) == []


def test_values_are_numbers_in_the_units_of_a_scenario() -> None:
    assert [number_of(text) for text in ("62.5MB/s", "20us", "80GiB", "1.5", "rail", "0,1")] == [
        62_500_000, 20_000, 80 << 30, 1.5, None, None,
    ]  # fmt: skip
