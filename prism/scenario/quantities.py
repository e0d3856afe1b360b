"""Sizes, times and rates as users write them, turned into integers without rounding."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

_FORM = re.compile(r"(?P<number>-?[0-9]{1,19}(\.[0-9]{1,19})?) ?(?P<unit>[A-Za-z/]+)")
_LARGEST = 2**63 - 1  # the columns of the graph are int64


@dataclass(frozen=True)
class Quantity:
    """One kind of quantity: what it is called, and how many of its base each unit holds."""

    noun: str
    base: str
    example: str
    units: Mapping[str, int]

    def parse(self, text: str) -> int:
        """The text in the base unit; ValueError for another form or unit, a fraction of the base, or overflow."""
        form = _FORM.fullmatch(text)
        if form is None or form["unit"] not in self.units:
            units = ", ".join(self.units)
            raise ValueError(f"expected a {self.noun} such as {self.example} (units: {units}), got {text!r}")
        exact = Fraction(form["number"]) * self.units[form["unit"]]
        if exact.denominator != 1:
            raise ValueError(f"expected a whole number of {self.base}, got {text!r}, which is {float(exact)!r}")
        if abs(exact) > _LARGEST:
            raise ValueError(f"expected at most {_LARGEST} {self.base}, got {text!r}")
        return int(exact)


_BYTES = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", start=1)},
}

SIZE = Quantity("size", "bytes", "80GiB", _BYTES)
RATE = Quantity("rate", "bytes per second", "50GB/s", {f"{unit}/s": size for unit, size in _BYTES.items()})
TIME = Quantity(
    "time", "nanoseconds", "1.5ms",
    {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9},
)  # fmt: skip
