"""Measured costs: the tables of nccl-tests, or CSV, and the times between and beyond what was measured.

A *curve* is the time of one collective over its size, on one link class and for one number of members. Between sizes,
and between curves of several numbers of members, times are interpolated in logarithms. Beyond the sizes a curve goes on
as if latency alone counted below and bandwidth alone above; beyond the numbers of members the nearest curve holds.
Sizes are those of the graph: the bytes of a member's input, for all_to_all without what a member sends to itself.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, OpKind
from prism.core.timeline.network import Costs, Network, op_costs, op_traffic

Float64 = npt.NDArray[np.float64]
LINKS = ("intra_node", "inter_node")
COLUMNS = ("collective", "group_size", "link", "bytes", "time_us")
"""The header of a CSV table; collective is the name of an OpKind in lower case."""

_PERF = re.compile(r"\b([a-z_]+)_perf\b")
_DEVICE = re.compile(r"#\s*Rank\s+\d+\s.*\bon\s+(\S+)\s+device\b")
_PROGRAMS = {"alltoall": OpKind.ALL_TO_ALL, "sendrecv": OpKind.SEND_RECV} | {
    kind.name.lower(): kind for kind in OpKind if kind not in (OpKind.ALL_TO_ALL, OpKind.SEND_RECV, OpKind.BARRIER)
}
"""What nccl-tests calls its programs, without `_perf`."""


class InvalidTable(ValueError):
    """The text is no table of costs; `line` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


@dataclass(frozen=True, slots=True)
class Curve:
    """Sizes in bytes, ascending and without repetition, and the time of each in ns."""

    sizes: Int64
    times: Float64

    def at(self, sizes: Int64) -> Float64:
        """The logarithms of the times at these sizes."""
        wanted = np.log(np.maximum(sizes, 1))
        known = np.log(np.maximum(self.sizes, 1))
        times: Float64 = np.interp(wanted, known, np.log(self.times)) + np.maximum(0, wanted - known[-1])
        return times


Table = dict[tuple[OpKind, str], dict[int, Curve]]
"""By collective and link class, the curve of each number of members, ascending."""


def parse_table(text: str) -> Table:
    """Read a table: CSV if its first line is the header of one, else output of nccl-tests, any number of runs of it.

    A size that was measured several times counts with its median. Raises InvalidTable.
    """
    lines = text.splitlines()
    is_csv = bool(lines) and lines[0].replace(" ", "") == ",".join(COLUMNS)
    points: dict[tuple[OpKind, str], dict[int, dict[int, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for kind, link, members, size, time in _csv_points(lines) if is_csv else _nccl_points(lines):
        points[kind, link][members][size].append(time)
    if not points:
        raise InvalidTable(max(1, len(lines)), f"no times; expected output of nccl-tests, or CSV: {','.join(COLUMNS)}")
    return {key: {n: _curve(by_size[n]) for n in sorted(by_size)} for key, by_size in points.items()}


def measured_costs(graph: Graph, table: Table, network: Network, ranks_per_node: int) -> tuple[Costs, list[str]]:
    """The costs of all ops by the table, and what it does not cover, one sentence for each collective and link class.

    A collective that the table lacks costs what `op_costs` says. The time of the smallest size counts as latency.
    """
    model, traffic = op_costs(graph, network, ranks_per_node), op_traffic(graph, ranks_per_node)
    latency, total, notes = model.latency.copy(), model.total, []
    for kind in OpKind:
        for link in LINKS:
            rows = np.flatnonzero(
                (graph.ops["kind"] == kind) & (traffic.members > 1) & (traffic.across == (link == LINKS[1]))
            )
            name, curves = f"{kind.name.lower()} ({link})", table.get((kind, link))
            if rows.size and curves is None:
                notes.append(f"{name}: not in the table of measured costs, the alpha-beta model stands in")
            elif rows.size and curves is not None:
                sizes, members = traffic.size[rows], traffic.members[rows]
                total[rows] = _times(curves, sizes, members)
                latency[rows] = np.minimum(total[rows], _times(curves, np.zeros_like(sizes), members))
                notes += _beyond(name, curves, sizes, members)
    return Costs(latency, total - latency), notes


def _times(curves: dict[int, Curve], sizes: Int64, members: Int64) -> Int64:
    """The time of each op: along the curves by size, then between the curves by the number of members."""
    numbers = np.array(list(curves))
    at_size = np.stack([curve.at(sizes) for curve in curves.values()])
    above = np.clip(np.searchsorted(numbers, members), 0, len(numbers) - 1)
    below = np.maximum(above - (numbers[above] > members), 0)
    span = np.log(numbers[above]) - np.log(numbers[below])
    part = np.divide(np.log(members) - np.log(numbers[below]), span, out=np.zeros(len(members)), where=span > 0)
    column = np.arange(len(members))
    low, high = at_size[below, column], at_size[above, column]
    times: Int64 = np.rint(np.exp(low + part * (high - low))).astype(np.int64)
    return times


def _beyond(name: str, curves: dict[int, Curve], sizes: Int64, members: Int64) -> list[str]:
    """What of these ops lies outside the measurements."""
    least = min(int(curve.sizes[0]) for curve in curves.values())
    most = max(int(curve.sizes[-1]) for curve in curves.values())
    outside = []
    if sizes.min() < least or sizes.max() > most:
        outside.append(f"{sizes.min()} to {sizes.max()} bytes, measured {least} to {most}")
    if members.min() < min(curves) or members.max() > max(curves):
        outside.append(f"{members.min()} to {members.max()} members, measured {min(curves)} to {max(curves)}")
    return [f"{name}: extrapolated for {' and '.join(outside)}"] if outside else []


Point = tuple[OpKind, str, int, int, float]  # collective, link class, members, size in bytes, time in ns


def _csv_points(lines: list[str]) -> list[Point]:
    names = {kind.name.lower(): kind for kind in OpKind}
    points = []
    for number, row in enumerate(csv.reader(lines[1:], skipinitialspace=True), start=2):
        if not row:
            continue
        if len(row) != len(COLUMNS):
            raise InvalidTable(number, f"{len(row)} values, expected {','.join(COLUMNS)}")
        name, members, link, size, time = (value.strip() for value in row)
        if name not in names:
            raise InvalidTable(number, f"unknown collective {name!r}, choose from {', '.join(names)}")
        if link not in LINKS:
            raise InvalidTable(number, f"unknown link {link!r}, choose from {', '.join(LINKS)}")
        points.append(_point(number, names[name], link, members, size, time))
    return points


def _nccl_points(lines: list[str]) -> list[Point]:
    """The out-of-place times; who was measured is in the comments above the rows."""
    kind: OpKind | None = None
    hosts: list[str] = []
    column, fresh = -1, True
    points = []
    for number, line in enumerate(lines, start=1):
        words = line.lstrip("# ").split()
        program, device = _PERF.search(line), _DEVICE.search(line)
        if program and program[1] in _PROGRAMS:
            kind = _PROGRAMS[program[1]]
        elif device:
            hosts = [device[1]] if fresh else [*hosts, device[1]]
            fresh = False
        elif line.startswith("#") and words[:2] == ["size", "count"] and "time" in words:
            column, fresh = words.index("time"), True
        elif column >= 0 and not line.startswith("#") and words and words[0].isdigit():
            if kind is None or not hosts or len(words) <= column:
                raise InvalidTable(number, "a row of times, and no line above it says `NAME_perf`, `# Rank ... device`")
            link = LINKS[len(dict.fromkeys(hosts)) > 1]
            points.append(_as_input(_point(number, kind, link, str(len(hosts)), words[0], words[column])))
    return points


def _as_input(point: Point) -> Point:
    """nccl-tests gives the larger of the buffers; the graph has the input of a member."""
    kind, link, members, size, time = point
    if kind == OpKind.SEND_RECV:
        return kind, link, 2, size, time
    if kind in (OpKind.ALL_GATHER, OpKind.GATHER):
        return kind, link, members, size // members, time
    if kind == OpKind.ALL_TO_ALL:
        return kind, link, members, size - size // members, time
    return point


def _point(line: int, kind: OpKind, link: str, members: str, size: str, time_us: str) -> Point:
    try:
        values = int(members), int(size), float(time_us) * 1000
    except ValueError:
        raise InvalidTable(line, f"expected numbers, got {members!r}, {size!r} and {time_us!r}") from None
    if values[0] < 1 or values[1] < 0 or not 0 < values[2] < float("inf"):
        raise InvalidTable(line, f"impossible: {members} members, {size} bytes, {time_us} us")
    return kind, link, *values


def _curve(by_size: dict[int, list[float]]) -> Curve:
    sizes = sorted(by_size)
    return Curve(np.array(sizes, np.int64), np.array([np.median(by_size[size]) for size in sizes]))
