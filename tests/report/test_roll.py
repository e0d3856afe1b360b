"""The columns that the page draws: what is in them, what is joined, and what is left out when there is too much."""

from __future__ import annotations

import base64
import gzip
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report.tiny import long_job, tiny_job

from prism.core.graph import Graph, Timeline
from prism.report import roll
from prism.report.roll import Roll, unroll
from prism.report.tracks import State
from prism.result import PathStep


def unpacked(made: Roll) -> dict[str, Any]:
    """The columns as arrays, times in ns."""
    header: Any = made.header
    data, rows = gzip.decompress(base64.b64decode(made.data)), len(header["rows"])
    ptr = np.frombuffer(data, "<u4", rows + 1)
    count, at = int(ptr[-1]), 4 * (rows + 1)
    columns: dict[str, Any] = {"ptr": ptr}
    for name, kind in (("gap", "<u4"), ("length", "<u4"), ("state", "u1"), ("label", "<u2"), ("late", "<i4")):
        columns[name] = np.frombuffer(data, kind, count, at)
        at += count * np.dtype(kind).itemsize
    assert at == len(data)
    starts = [np.cumsum(columns["gap"][a:b] + np.append(0, columns["length"][a : b - 1])) for a, b in _rows(ptr)]
    columns["start"] = np.concatenate(starts) * header["quantum"]
    columns["took"] = columns["length"] * header["quantum"]
    return columns


def _rows(ptr: Any) -> list[tuple[int, int]]:
    return list(zip(ptr.tolist(), ptr.tolist()[1:], strict=False))


def unrolled(graph: Graph, timeline: Timeline, path: tuple[PathStep, ...] = ()) -> Roll:
    made = unroll(graph, timeline, path)
    assert made is not None
    return made


def test_a_row_has_its_segments_with_their_names_and_who_was_late() -> None:
    made = unrolled(*tiny_job())
    header: Any = made.header
    columns = unpacked(made)
    assert header["rows"] == ["rank 0", "rank 1"]
    assert header["rowOf"] == [0, 1]
    first = slice(*columns["ptr"][:2])
    assert columns["start"][first].tolist() == [0, 10_000, 20_000, 25_000, 30_000]
    assert columns["took"][first].tolist() == [10_000, 10_000, 5_000, 5_000, 10_000]
    assert columns["state"][first].tolist() == [
        *(State.COMPUTE, State.WAIT, State.COMM),
        *(State.WAIT, State.COMM),
    ]
    assert [header["labels"][row] for row in columns["label"][first]][1] == "all_reduce at train.py:9"
    assert columns["late"][first].tolist() == [-1, 1, -1, 1, -1], "rank 1 posted last, twice"


def test_the_critical_path_has_its_place() -> None:
    path = (PathStep(rank=1, kind="compute", ns=20_000), PathStep(rank=0, kind="all_reduce", ns=20_000))
    graph, timeline = tiny_job()
    header: Any = unrolled(graph, timeline, path).header
    assert header["path"] == [(1, 0, 20_000), (0, 20_000, 40_000)]


def test_ranks_that_do_alike_share_a_row() -> None:
    graph, timeline = long_job(ranks=1, pieces=6)
    twice = replace(
        graph,
        world_size=2,
        lanes=np.concatenate([graph.lanes, graph.lanes]),
        lane_ptr=np.array([0, 6, 12]),
        nodes=np.concatenate([graph.nodes, graph.nodes]),
    )
    twice.lanes["rank"] = [0, 1]
    both = replace(timeline, node_start=np.tile(timeline.node_start, 2), node_end=np.tile(timeline.node_end, 2))
    header: Any = unrolled(twice, both).header
    assert header["rows"] == ["rank 0 and 1 alike"]
    assert header["rowOf"] == [0, 0]


def test_of_too_many_ranks_those_that_matter_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "MAX_SEGMENTS", 50)
    graph, timeline = long_job(ranks=20, pieces=10)
    made = unrolled(graph, timeline, (PathStep(rank=17, kind="compute", ns=10),))
    header: Any = made.header
    assert header["rows"] == ["rank 0", "rank 1", "rank 2", "rank 3", "rank 17"]
    assert header["rowOf"][4] == -1
    assert made.notes == ["5 of 20 ranks: those on the critical path, those that others waited for, and the lowest"]


def test_of_one_rank_with_too_much_the_shortest_segments_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "MAX_SEGMENTS", 50)
    graph, timeline = long_job(ranks=1, pieces=1000)
    made = unrolled(graph, timeline)
    took = np.sort(timeline.node_end - timeline.node_start)
    assert len(unpacked(made)["took"]) == 50
    assert unpacked(made)["took"].min() >= took[-50]
    assert "segments shorter than" in made.notes[0]


def test_a_job_that_takes_no_time_has_none() -> None:
    graph, timeline = tiny_job()
    never = replace(timeline, node_start=0 * timeline.node_start, node_end=0 * timeline.node_end)
    assert unroll(graph, never, ()) is None


def test_what_programs_say_cannot_end_the_script() -> None:
    graph, timeline = tiny_job()
    made = unrolled(replace(graph, sites=("</script><b>", "x", "y")), timeline)
    assert "</script" not in made.script
    assert "\\u003c/script" in made.script
