"""The timeline as columns that a page can zoom into: one row for ranks that do alike, its segments in order of time.

The size is bounded: of a long job the last iterations are kept, of very many different ranks those that matter most,
and last of all the shortest segments go. What is left out is said.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from prism.core.graph import Graph, Int64, Table, Timeline
from prism.core.timeline.analysis import iteration_ends
from prism.core.timeline.attribution import last_posts
from prism.report import units
from prism.report.tracks import State, alike, alike_name, main_lanes, op_name, segments
from prism.result import PathStep

MAX_SEGMENTS = 400_000
"""About 2 MB of the page; a browser draws any part of them in a few milliseconds."""
MAX_ROWS = 2_048
MAX_ITERATIONS = 4
TICKS = 1 << 31
"""Times are whole quanta, and so many of them fit into a column."""


@dataclass(frozen=True, slots=True)
class Roll:
    """What the page needs: a header of plain values, and the columns, packed (gzip, base64).

    Columns, little-endian, one after the other: ptr u32[rows + 1], start u32[n], length u32[n], state u8[n],
    label u16[n], late i32[n]; start is the distance from the end of the segment before, all in quanta.
    """

    header: dict[str, object]
    data: str
    notes: list[str]

    @property
    def script(self) -> str:
        """The header as JSON that may stand inside a script element."""
        return msgspec.json.encode(self.header).decode().replace("<", "\\u003c")


def unroll(graph: Graph, timeline: Timeline, path: Sequence[PathStep], first: Iterable[int] = ()) -> Roll | None:
    """The columns of the last iterations; ranks of `first` are kept before others. None if nothing takes time."""
    table = segments(graph, timeline)
    lanes = main_lanes(graph)
    ends = iteration_ends(graph, timeline)
    bounds = np.concatenate([[0], ends]) if len(ends) else np.array([0, timeline.node_end.max(initial=0)])
    bounds = bounds[-1 - MAX_ITERATIONS :]
    notes: list[str] = []
    while len(bounds) > 2 and _count(table, bounds) > MAX_SEGMENTS:
        bounds = bounds[1:]
    low, high = int(bounds[0]), int(bounds[-1])
    table = table[(table["end"] > low) & (table["start"] < high) & np.isin(table["lane"], lanes)]
    if not len(table):
        return None
    rank = graph.lanes["rank"][table["lane"]]
    rows = alike(graph, table)
    kept = _chosen(rows, _sizes(table, rank), [step.rank for step in path] + list(first))
    if len(kept) < len(rows):
        notes.append(f"{sum(map(len, kept)):,} of {graph.world_size:,} ranks: those on the critical path, those that "
                     "others waited for, and the lowest")  # fmt: skip
    columns, note = _columns(graph, timeline, table, rank, kept, (low, high))
    notes += note
    row_of = {member: row for row, members in enumerate(kept) for member in members}
    header: dict[str, object] = {
        "span": high - low,
        "quantum": _quantum(low, high),
        "rows": [alike_name(members) for members in kept],
        "rowOf": [row_of.get(member, -1) for member in range(graph.world_size)],
        "labels": columns.labels,
        "iterations": [int(at) - low for at in bounds],
        "numbered": len(ends) - len(bounds) + 1 if len(ends) else -1,
        "path": [(row_of[step.rank], start - low, end - low) for step, start, end in _placed(path, high)
                 if end > low and step.rank in row_of],
    }  # fmt: skip
    return Roll(header, columns.data, notes)


@dataclass(frozen=True, slots=True)
class _Columns:
    data: str
    labels: list[str]


def _count(table: Table, bounds: Int64) -> int:
    return int(((table["end"] > bounds[0]) & (table["start"] < bounds[-1])).sum())


def _quantum(low: int, high: int) -> int:
    return max(1, -(-(high - low) // TICKS))


def _sizes(table: Table, rank: Int64) -> dict[int, int]:
    ranks, sizes = np.unique(rank, return_counts=True)
    return dict(zip(ranks.tolist(), sizes.tolist(), strict=True))


def _chosen(rows: list[list[int]], sizes: dict[int, int], first: Sequence[int]) -> list[list[int]]:
    """As many rows as there is room for; those with a rank of `first` before others."""
    wanted = set(first)
    order = sorted(range(len(rows)), key=lambda row: (wanted.isdisjoint(rows[row]), row))
    kept: set[int] = set()
    room = MAX_SEGMENTS
    for row in order[:MAX_ROWS]:
        room -= sizes[rows[row][0]]
        if kept and room < 0:
            break
        kept.add(row)
    return [rows[row] for row in sorted(kept)]


def _columns(
    graph: Graph, timeline: Timeline, table: Table, rank: Int64, rows: list[list[int]], window: tuple[int, int]
) -> tuple[_Columns, list[str]]:
    part = table[np.isin(rank, [members[0] for members in rows])]
    notes = []
    if len(part) > MAX_SEGMENTS:
        took = part["end"] - part["start"]
        least = int(np.partition(took, len(took) - MAX_SEGMENTS)[len(took) - MAX_SEGMENTS])
        part = part[took >= least][:MAX_SEGMENTS]
        notes.append(f"segments shorter than {units.time(least)} are left out")
    low, high = window
    quantum = _quantum(low, high)
    start, end = (np.clip(part[name], low, high) - low for name in ("start", "end"))
    start, end = start // quantum, end // quantum
    _, first = np.unique(part["lane"], return_index=True)
    before = np.concatenate([[0], end[:-1]])
    before[first] = 0
    labels, label = _labels(graph, part)
    late = _late(graph, timeline, part)
    packed = b"".join(
        column.tobytes()
        for column in (
            np.append(first, len(part)).astype("<u4"),
            (start - before).astype("<u4"),
            (end - start).astype("<u4"),
            part["state"].astype("u1"),
            label.astype("<u2"),
            late.astype("<i4"),
        )
    )
    return _Columns(base64.b64encode(gzip.compress(packed, 6, mtime=0)).decode(), labels), notes


def _labels(graph: Graph, part: Table) -> tuple[list[str], Int64]:
    """What the segments are called: the op if there is one, and the line of the program; the text, and its row."""
    site = graph.nodes["site"][part["node"]].astype(np.int64)
    kind = np.where(part["op"] >= 0, graph.ops["kind"][np.maximum(part["op"], 0)], 255) if len(graph.ops) else site * 0
    pairs, row = np.unique(np.stack([kind, site], axis=1), axis=0, return_inverse=True)
    ops = {int(graph.ops["kind"][op]): op_name(graph, int(op)) for op in np.unique(part["op"]) if op >= 0}
    texts = [
        " at ".join(filter(None, (ops.get(kind, ""), graph.sites[site] if site >= 0 else "")))
        for kind, site in pairs.tolist()[: 1 << 16]
    ]
    return texts, np.minimum(row.ravel(), (1 << 16) - 1)


def _late(graph: Graph, timeline: Timeline, part: Table) -> Int64:
    """The rank whose post ended each wait, -1 where there is none."""
    late = np.full(len(part), -1)
    waits = np.flatnonzero((part["state"] == State.WAIT) & (part["op"] >= 0))
    if waits.size:
        posts = graph.posts[last_posts(graph, timeline)[part["op"][waits]]]
        late[waits] = graph.node_rank()[posts]
    return late


def _placed(path: Sequence[PathStep], end: int) -> list[tuple[PathStep, int, int]]:
    """The steps of the critical path with their times; the last one ends with the window."""
    at = end - sum(step.ns for step in path)
    placed = []
    for step in path:
        placed.append((step, at, at + step.ns))
        at += step.ns
    return placed
