"""The lines of the program that call sites name, as they are when the report is written."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from pathlib import Path

from prism.core.diagnosis import innermost

AROUND = 2
"""How many lines before and after are shown."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line; `here` if it is the one that the call site names."""

    number: int
    text: str
    here: bool


def source_of(site: str | None, base: Path | None, around: int = AROUND) -> list[SourceLine]:
    """The line of the innermost frame of a call site, with those around it; none where there is no such file."""
    path, _, number = (innermost(site or "") or "").rpartition(":")
    if base is None or not path or not number.isdigit():
        return []
    lines = linecache.getlines(str(base / path))
    at = int(number)
    if not 0 < at <= len(lines):
        return []
    low, high = max(1, at - around), min(len(lines), at + around)
    while low < at and not lines[low - 1].strip():
        low += 1
    while high > at and not lines[high - 1].strip():
        high -= 1
    return [SourceLine(row, lines[row - 1].rstrip().expandtabs(4), row == at) for row in range(low, high + 1)]


def source_text(site: str | None, base: Path | None) -> str:
    """The line itself, without its indentation; "" where there is none."""
    return next((line.text.strip() for line in source_of(site, base, 0)), "")
