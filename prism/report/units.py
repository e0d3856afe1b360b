"""Quantities as people read them: times, sizes, shares and lists of ranks."""

from __future__ import annotations

from collections.abc import Iterable

TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def time(ns: float, like: float | None = None) -> str:
    """Nanoseconds as `12.3 ms`; with `like`, in the unit and precision of that value, for columns of one unit."""
    return _scaled(ns, ns if like is None else like, TIMES)


def size(nbytes: float, like: float | None = None) -> str:
    """Bytes in powers of 1024 as `1.50 GiB`; `like` as for `time`."""
    return _scaled(nbytes, nbytes if like is None else like, SIZES)


def percent(fraction: float) -> str:
    """A fraction of one as `12.3 %`."""
    return f"{100 * fraction:.1f} %"


def _scaled(value: float, like: float, units: tuple[tuple[int, str], ...]) -> str:
    scale, name = next((unit for unit in units if abs(like) >= unit[0]), units[-1])
    shown = abs(like) / scale
    digits = 0 if scale == 1 else 1 if shown >= 10 else 2
    return f"{value / scale:,.{digits}f} {name}"


def rank_ranges(ranks: Iterable[int]) -> str:
    """Ranks in ascending order with neighbours joined: `0-3, 7`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
