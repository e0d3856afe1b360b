"""Sweeps as line charts: how much slower an iteration is, over the value that was swept.

Variants of one sweep share a name, `NAME KEY=VALUE ...`. The key with most values is the axis; each combination of the
others is a line of its own. What is no number (a list of ranks) is left to the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from prism.result import WhatIfResult
from prism.scenario.quantities import RATE, SIZE, TIME

SWEPT = re.compile(r"(?P<name>.+?)(?P<values>( [A-Za-z_.]+=\S+)+)")
MAX_LINES = 8
LOGARITHMIC = 16
"""The axis is logarithmic where the largest value is so many times the smallest."""
_WIDTH, _HEIGHT = 486, 230
_LEFT, _RIGHT, _TOP, _BELOW = 56, 38, 16, 44  # margins in px: slowdowns, half a value, a number, the values


@dataclass(frozen=True, slots=True)
class Point:
    """One variant, in px, and its value and slowdown as text."""

    x: float
    y: float
    value: str
    slowdown: str


@dataclass(frozen=True, slots=True)
class Curve:
    """The variants that share all values but one."""

    label: str
    points: list[Point]


@dataclass(frozen=True, slots=True)
class Chart:
    """One sweep, in px; `base` is where the prediction lies."""

    name: str
    key: str
    width: int
    height: int
    left: int
    right: int
    bottom: int
    base: float
    curves: list[Curve]
    values: list[tuple[float, str]]
    slowdowns: list[tuple[float, str]]

    @property
    def told(self) -> str:
        """The chart in words."""
        lines = (", ".join(f"{point.value} {point.slowdown}" for point in curve.points) for curve in self.curves)
        labelled = (f"{curve.label}: {text}" if curve.label else text
                    for curve, text in zip(self.curves, lines, strict=True))  # fmt: skip
        return f"Slowdown of {self.name} over {self.key}: " + "; ".join(labelled)


Swept = tuple[dict[str, str], float]  # value by key, slowdown


def draw_curves(variants: Sequence[WhatIfResult]) -> list[Chart]:
    """A chart for each sweep that has two numbers at least, in the order of the variants."""
    sweeps: dict[str, list[Swept]] = {}
    for variant in variants:
        found = SWEPT.fullmatch(variant.name)
        if found and variant.slowdown is not None:
            values = dict(pair.split("=", 1) for pair in found["values"].split())
            sweeps.setdefault(found["name"], []).append((values, variant.slowdown))
    return [chart for name, rows in sweeps.items() if (chart := _chart(name, rows)) is not None]


def _chart(name: str, rows: list[Swept]) -> Chart | None:
    if any(values.keys() != rows[0][0].keys() for values, _ in rows):
        return None
    numbers = {key: {number_of(values[key]) for values, _ in rows} for key in rows[0][0]}
    keys = [key for key, found in numbers.items() if None not in found and len(found) > 1]
    if not keys:
        return None
    key = max(keys, key=lambda key: len(numbers[key]))
    x = _Across([number_of(values[key]) or 0.0 for values, _ in rows], _LEFT + 14, _WIDTH - _RIGHT - 4)
    y = _Upright([slowdown for _, slowdown in rows])
    lines: dict[str, list[tuple[float, Point]]] = {}
    for values, slowdown in rows:
        number = number_of(values[key]) or 0.0
        label = ", ".join(f"{other} {value}" for other, value in values.items() if other != key)
        point = Point(x.px(number), y.px(slowdown), values[key], f"{slowdown:.3f}x")
        lines.setdefault(label, []).append((number, point))
    curves = [Curve(label, [point for _, point in sorted(points, key=lambda one: one[0])])
              for label, points in lines.items()]  # fmt: skip
    if len(curves) > MAX_LINES:
        return None
    places = dict(sorted({point.x: point.value for curve in curves for point in curve.points}.items()))
    return Chart(
        name, key, _WIDTH, _HEIGHT, _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BELOW, y.px(1), curves,
        list(_apart(places)), [(y.px(value), text) for value, text in y.steps()],
    )  # fmt: skip


def number_of(text: str) -> float | None:
    """A value of a scenario as a number; None if it is none."""
    for quantity in (RATE, SIZE, TIME):
        try:
            return float(quantity.parse(text))
        except ValueError:
            continue
    try:
        return float(text)
    except ValueError:
        return None


class _Across:
    """From a number to px: logarithmic where numbers differ by magnitudes."""

    def __init__(self, numbers: list[float], low: float, high: float) -> None:
        self._log = min(numbers) > 0 and max(numbers) >= LOGARITHMIC * min(numbers)
        ends = [self._scaled(number) for number in (min(numbers), max(numbers))]
        self._from, self._span = ends[0], ends[1] - ends[0]
        self._low, self._width = low, high - low

    def px(self, number: float) -> float:
        return round(self._low + (self._scaled(number) - self._from) / self._span * self._width, 1)

    def _scaled(self, number: float) -> float:
        return float(np.log(number)) if self._log else number


@dataclass(frozen=True, slots=True)
class _Upright:
    """The upright axis; it shows the prediction, 1, in any case."""

    values: list[float]

    def px(self, slowdown: float) -> float:
        low, high, _ = self._scale()
        return round(_TOP + (high - slowdown) / (high - low) * (_HEIGHT - _BELOW - _TOP), 1)

    def steps(self) -> Iterator[tuple[float, str]]:
        low, high, step = self._scale()
        digits = max(0, int(np.ceil(-np.log10(step) - 1e-9)))
        for number in range(round(low / step), round(high / step) + 1):
            yield number * step, f"{number * step:.{digits}f}x"

    def _scale(self) -> tuple[float, float, float]:
        low, high = min(*self.values, 1.0), max(*self.values, 1.0)
        target = max(high - low, 0.02) / 4
        power = 10 ** np.floor(np.log10(target))
        step = float(next(m * power for m in (1, 2, 5, 10) if m * power >= target * (1 - 1e-9)))
        low = float(np.floor(low / step + 1e-9) * step)
        return low, max(float(np.ceil(high / step - 1e-9) * step), low + 3 * step), step


def _apart(places: dict[float, str]) -> Iterator[tuple[float, str]]:
    """The labels of values that do not stand in each other's way."""
    end = -1e9
    for x, text in places.items():
        half = 3.2 * len(text) + 4
        if x - half >= end:
            yield x, text
            end = x + half
