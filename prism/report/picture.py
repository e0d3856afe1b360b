"""The timeline as a picture: ranks as rows, time to the right, coloured by what each rank is doing.

The plane is divided into cells, each coloured by the state that takes the largest part of it, and equal neighbours are
joined. So the size of the picture has a bound that neither the ranks nor the length of the job can move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from prism.core.graph import Graph, Int64, Table, Timeline
from prism.core.timeline.analysis import iteration_ends
from prism.report import units
from prism.report.templates import environment
from prism.report.tracks import State, main_lanes, segments

MAX_ROWS = 64
_MAX_CELLS = 40_000  # all cells different, the worst case: about 600 kB of path data
_LEFT, _RIGHT, _TOP, _BELOW = 84, 24, 36, 60  # margins in px: labels of the ranks, of the iterations, axis and legend
_IDLE = len(State)


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the picture; the label is empty where rows are too close for one each."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that the template draws, in px."""

    label: str
    width: int
    height: float
    left: int
    right: int
    top: int
    bottom: float
    bar: int
    lanes: list[Lane]
    shapes: list[tuple[str, str]]  # css class, path data
    boundaries: list[float]
    iterations: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    note: str


def timeline_svg(graph: Graph, timeline: Timeline, width: int = 960, iterations: int = 2) -> str:
    """The last `iterations` iterations (all of the job if it marks none) as an SVG document, `width` px wide."""
    picture = draw(graph, timeline, width, iterations)
    return environment.get_template("timeline.svg.j2").render(picture=picture, standalone=True)


def bands(count: int) -> list[range]:
    """Ranks 0 to `count` - 1 in at most MAX_ROWS bands of equal size (the last may be shorter)."""
    step = max(1, -(-count // MAX_ROWS))
    return [range(low, min(low + step, count)) for low in range(0, count, step)]


def draw(graph: Graph, timeline: Timeline, width: int, iterations: int) -> Picture:
    """Lay out the last `iterations` iterations (all of the job if it marks none) on `width` px."""
    first, bounds = _window(graph, timeline, iterations)
    rows = bands(graph.world_size)
    bar, gap = (18, 4) if len(rows) <= 16 else (12, 2) if len(rows) <= 32 else (8, 1)
    bottom = _TOP + len(rows) * (bar + gap)
    scale = (width - _LEFT - _RIGHT) / max(1, bounds[-1] - bounds[0])
    place = [round(_LEFT + (at - bounds[0]) * scale, 1) for at in bounds.tolist()]
    named = [
        (round((low + high) / 2, 1), f"iteration {first + k}")
        for k, (low, high) in enumerate(pairwise(place))
        if first >= 0 and high - low > 70
    ]
    return Picture(
        label=f"Timeline of {graph.world_size} ranks over {units.time(int(bounds[-1] - bounds[0]))}",
        width=width,
        height=bottom + _BELOW,
        left=_LEFT,
        right=width - _RIGHT,
        top=_TOP,
        bottom=bottom,
        bar=bar,
        lanes=_lanes(rows, bar + gap),
        shapes=_shapes(graph, timeline, bounds, width - _LEFT - _RIGHT, bar, gap),
        boundaries=place,
        iterations=named,
        ticks=[(round(_LEFT + at * scale, 1), text) for at, text in ticks(int(bounds[-1] - bounds[0]), width)],
        note=f"each row: the commonest state of {len(rows[0])} ranks" if len(rows[0]) > 1 else "",
    )


def _window(graph: Graph, timeline: Timeline, iterations: int) -> tuple[int, Int64]:
    """The first iteration shown (-1: none is marked), and when it starts and each of the shown ones ends."""
    ends = iteration_ends(graph, timeline)
    if not len(ends):
        return -1, np.array([0, timeline.node_end.max(initial=0)])
    first = max(0, len(ends) - iterations)
    return first, np.concatenate([[0], ends])[first:]


def _lanes(rows: list[range], pitch: int) -> list[Lane]:
    every = max(1, -(-13 // pitch))  # 13 px is the height of a line of text
    labels = [f"rank {row[0]}" if len(row) == 1 else units.rank_ranges(row) for row in rows]
    return [Lane(_TOP + i * pitch, label if i % every == 0 else "") for i, label in enumerate(labels)]


def ticks(span: int, width: int) -> Iterator[tuple[int, str]]:
    """Round times from 0 to `span` ns, about 120 px apart."""
    target = max(1.0, span * 120 / width)
    power = 10 ** int(np.log10(target))
    step = int(next(m * power for m in (1, 2, 5, 10) if m * power >= target))
    scale, name = next(unit for unit in units.TIMES if max(1, span) >= unit[0])
    for at in range(0, span + 1, step):
        yield at, f"{at / scale:g} {name}"


def _shapes(graph: Graph, timeline: Timeline, bounds: Int64, pixels: int, bar: int, gap: int) -> list[tuple[str, str]]:
    rows = bands(graph.world_size)
    columns = min(2 * pixels, _MAX_CELLS // len(rows))
    cells = _cells(graph, segments(graph, timeline), rows, np.linspace(bounds[0], bounds[-1], columns + 1))
    paths: dict[int, list[str]] = {state: [] for state in State}
    for row, states in enumerate(cells):
        cuts = np.flatnonzero(np.diff(states)) + 1
        edges = np.round(_LEFT + np.concatenate([[0], cuts, [columns]]) * (pixels / columns), 1).tolist()
        for state, low, high in zip(states[np.concatenate([[0], cuts])].tolist(), edges, edges[1:], strict=False):
            if state != _IDLE:
                paths[state].append(f"M{low:g} {_TOP + row * (bar + gap)}H{high:g}v{bar}H{low:g}z")
    return [(state.name.lower(), "".join(paths[state])) for state in State]


def _cells(graph: Graph, table: Table, rows: Sequence[range], edges: np.ndarray) -> np.ndarray:
    """The state with the largest part of each cell, int64[rows, columns]; _IDLE where no segment is."""
    lanes = main_lanes(graph)
    lows, highs = (np.searchsorted(table["lane"], lanes, side=side) for side in ("left", "right"))
    cells = np.empty((len(rows), len(edges) - 1), np.int64)
    for row, ranks in enumerate(rows):
        spent = np.zeros((len(State) + 1, len(edges) - 1))
        spent[_IDLE] = len(ranks) * np.diff(edges)
        for low, high in zip(lows[ranks.start : ranks.stop], highs[ranks.start : ranks.stop], strict=True):
            for state in State:
                part = table[low:high][table["state"][low:high] == state]
                spent[state] += _covered(part["start"], part["end"], edges)
        spent[_IDLE] -= spent[:_IDLE].sum(axis=0)
        busiest = spent[:_IDLE].argmax(axis=0)
        cells[row] = np.where(spent[_IDLE] >= spent[:_IDLE].max(axis=0), _IDLE, busiest)
    return cells


def _covered(start: Int64, end: Int64, edges: np.ndarray) -> np.ndarray:
    """How much of each column lies in the intervals [start, end), which are disjoint and ascending."""
    if not len(start):
        return np.zeros(len(edges) - 1)
    total = np.cumsum(end - start)
    times = np.stack([start, end], axis=1).ravel()
    return np.diff(np.interp(edges, times, np.stack([total - (end - start), total], axis=1).ravel()))
