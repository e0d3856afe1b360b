"""Memory as the report shows it: what each rank held when, at most, and what its peak was made of.

The course is drawn in columns: of each the most that was held in it. Ranks of a band share a line, the highest of
theirs. Its times are those of the prediction; where there is none, as of a run that failed, the operations that a rank
posted are counted instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from prism.core.graph import Graph, Int64, NodeKind, Table, Timeline
from prism.core.laps import LapEnd
from prism.core.levels import ranges
from prism.report import units
from prism.report.picture import bands, ticks
from prism.report.surroundings import Surroundings
from prism.result import RankResult

PARTS = ("parameters", "gradients", "optimizer", "activations", "other")
COLUMNS = 360
_LEFT, _RIGHT, _TOP, _BELOW = 78, 24, 14, 26  # margins in px: sizes, the end, the highest label, the axis
_HEIGHT = 200  # px of the plane


@dataclass(frozen=True, slots=True)
class Held:
    """A band of ranks: the one of them that held most, in bytes; `parts` of its peak by name, if they are known."""

    ranks: list[int]
    most: int
    peak: int
    reserved: int | None
    parts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Course:
    """The line of a band: its row in the table, its path, where it is highest, and that in words."""

    row: int
    path: str
    peak: tuple[float, float]
    told: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that the template draws, in px; `shown` is the row of the highest line."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    band: str
    courses: list[Course]
    shown: int
    capacity: float | None
    sizes: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    marks: list[float]
    timed: bool


def held(ranks: Sequence[RankResult]) -> list[Held]:
    """The peaks of all ranks that have one, in bands."""
    known = [rank for rank in ranks if rank.peak_bytes is not None]
    rows = []
    for band in bands(len(known)):
        members = [known[i] for i in band]
        most = max(members, key=lambda rank: (rank.peak_bytes or 0, -rank.rank))
        parts = msgspec.to_builtins(most.peak_breakdown) if most.peak_breakdown is not None else {}
        reserved = max((rank.reserved_bytes for rank in members if rank.reserved_bytes is not None), default=None)
        rows.append(Held([rank.rank for rank in members], most.rank, most.peak_bytes or 0, reserved, parts))
    return rows


def draw_memory(
    rows: Sequence[Held], around: Surroundings, graph: Graph | None, timeline: Timeline | None, width: int
) -> Chart | None:
    """Lay out the course of memory; None where nobody left one."""
    lines = dict(_lines(rows, around, graph, timeline))
    span = max((end for _, ends in lines.values() for end in ends[-1:]), default=0)
    if span <= 0:
        return None
    columns = {row: [_columns(most, ends, span) for most, ends in _of_band(rows[row], around, graph, timeline)]
               for row in lines}  # fmt: skip
    every = np.stack([column for of_row in columns.values() for column in of_row])
    top = _scale(int(every.max()), around.capacity)
    plane = _Plane(width, span, top)
    tallest = {row: np.max(of_row, axis=0) for row, of_row in columns.items()}
    shown = max(tallest, key=lambda row: (int(tallest[row].max()), -row))
    timed = timeline is not None
    return Chart(
        width=width, height=_TOP + _HEIGHT + _BELOW, left=_LEFT, right=width - _RIGHT, top=_TOP, bottom=_TOP + _HEIGHT,
        band=plane.band(every.min(axis=0), every.max(axis=0)),
        courses=[_course(plane, row, rows[row], line, timed) for row, line in tallest.items()],
        shown=shown,
        capacity=plane.y(around.capacity) if around.capacity and around.capacity <= top else None,
        sizes=[(plane.y(value), units.size(value)) for value in _steps(top)],
        ticks=[(plane.x(at), text) for at, text in (ticks(span, width) if timed else _numbers(span))],
        marks=[plane.x(at) for at in _marks(rows[shown].most, around, lines[shown][1])],
        timed=timed,
    )  # fmt: skip


Line = tuple[Int64, Int64]  # the most bytes of each lap, and where it ends: ns, or the number of laps


def _lines(
    rows: Sequence[Held], around: Surroundings, graph: Graph | None, timeline: Timeline | None
) -> Iterator[tuple[int, Line]]:
    """The line of the member of each band that held most."""
    for row, band in enumerate(rows):
        line = _line(band.most, around, graph, timeline)
        if line is not None:
            yield row, line


def _of_band(band: Held, around: Surroundings, graph: Graph | None, timeline: Timeline | None) -> Iterator[Line]:
    """The lines of a band, one for all that one rank ran for."""
    homes = {around.home(rank): rank for rank in reversed(band.ranks)} | {around.home(band.most): band.most}
    for rank in homes.values():
        line = _line(rank, around, graph, timeline)
        if line is not None:
            yield line


def _line(rank: int, around: Surroundings, graph: Graph | None, timeline: Timeline | None) -> Line | None:
    """The laps of a rank over time; None if it left none, or not those of its lane."""
    laps = around.laps.get(around.home(rank))
    if laps is None or not len(laps):
        return None
    if graph is None or timeline is None:
        return laps["most"].copy(), np.arange(1, len(laps) + 1)
    lanes = np.flatnonzero(graph.lanes["rank"] == rank)
    if len(lanes) != 1:
        return None
    low, high = graph.lane_ptr[lanes[0] : lanes[0] + 2].tolist()
    kinds = graph.nodes["kind"][low:high]
    told = np.flatnonzero((kinds == NodeKind.POST) | (kinds == NodeKind.MARK))
    ends = np.where(kinds[told] == NodeKind.MARK, LapEnd.MARK, LapEnd.POST)
    if len(told) >= len(laps) or (laps["end"][: len(told)] != ends).any():
        return None
    at = np.append(timeline.node_end[low:high][told], timeline.node_end[low:high].max(initial=0))
    return laps["most"][: len(at)].copy(), at


def _columns(most: Int64, ends: Int64, span: int) -> Int64:
    """The most that is held in each column; after the last lap nothing."""
    first = np.concatenate([[0], ends[:-1]]) * COLUMNS // span
    last = np.maximum(first, -(-ends * COLUMNS // span) - 1)
    last = np.minimum(last, COLUMNS - 1)
    first = np.minimum(first, last)
    columns = np.zeros(COLUMNS, np.int64)
    np.maximum.at(columns, ranges(first, last + 1), np.repeat(most, last + 1 - first))
    return columns


def _marks(rank: int, around: Surroundings, ends: Int64) -> list[int]:
    """Where the iterations of a rank end."""
    laps: Table = around.laps[around.home(rank)][: len(ends)]
    marks: list[int] = ends[laps["end"] == LapEnd.MARK].tolist()
    return marks if len(marks) <= 24 else []


def _scale(most: int, capacity: int | None) -> int:
    """What the top of the plane stands for: the capacity, where that does not press the lines to the ground."""
    return max(capacity, most) if capacity is not None and capacity < 4 * most else most


def _steps(top: int) -> list[int]:
    """Round sizes up to the top, four or so."""
    power = 1 << max(0, top.bit_length() - 1)
    step = next(power // part for part in (2, 4, 8) if top >= 3 * power // part or part == 8)
    return list(range(0, top + 1, max(1, step)))


def _numbers(span: int) -> Iterator[tuple[int, str]]:
    """Numbers of operations, eight or so."""
    step = max(1, -(-span // 8))
    for at in range(0, span + 1, step):
        yield at, f"{at:,}"


def _course(plane: _Plane, row: int, band: Held, line: Int64, timed: bool) -> Course:
    column = int(line.argmax())
    place = (column + 0.5) * plane.span / COLUMNS
    where = f"at {units.time(place)}" if timed else f"after {int(place):,} operations and iterations"
    name = f"rank {band.ranks[0]}" if len(band.ranks) == 1 else f"ranks {units.rank_ranges(band.ranks)}"
    told = f"{name}: at most {units.size(int(line.max()))}, {where}"
    return Course(row, plane.path(line), (plane.x(place), plane.y(int(line[column]))), told)


@dataclass(frozen=True, slots=True)
class _Plane:
    """From time and bytes to px."""

    width: int
    span: int
    top: int

    def x(self, at: float) -> float:
        return float(round(_LEFT + at * (self.width - _LEFT - _RIGHT) / self.span, 1))

    def y(self, nbytes: float) -> float:
        return float(round(_TOP + _HEIGHT - nbytes * _HEIGHT / max(1, self.top), 1))

    def path(self, line: Int64) -> str:
        """A line of steps from the left to where nothing is held any more."""
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(line)) + 1])
        edges = [self.x(column * self.span / COLUMNS) for column in [*cuts.tolist(), COLUMNS]]
        heights = [self.y(value) for value in line[cuts].tolist()]
        moves = (f"V{y:g}H{right:g}" for y, right in zip(heights, edges[1:], strict=True))
        return f"M{edges[0]:g} {self.y(0):g}" + "".join(moves)

    def band(self, low: Int64, high: Int64) -> str:
        """The area between two lines."""
        edges = [self.x(column * self.span / COLUMNS) for column in range(COLUMNS + 1)]
        there = "".join(f"V{self.y(y):g}H{x:g}" for y, x in zip(high.tolist(), edges[1:], strict=True))
        back = "".join(f"V{self.y(y):g}H{x:g}" for y, x in zip(low[::-1].tolist(), edges[-2::-1], strict=True))
        return f"M{edges[0]:g} {self.y(0):g}{there}{back}z"
