"""The course of memory: which laps belong to which operations, and how they are drawn."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from report.tiny import tiny_job

from prism.core.events import PeakBreakdown
from prism.core.graph import Table
from prism.core.laps import LAP, LapEnd, laps_name
from prism.folder import Folder
from prism.report.html import render_html
from prism.report.memory import COLUMNS, draw_memory, held
from prism.report.surroundings import Surroundings, surroundings
from prism.result import RankResult, Result
from prism.scenario import Devices, Network, Program, Scenario, World

MIB = 1 << 20
POST, MARK, END = LapEnd.POST, LapEnd.MARK, LapEnd.END


def laps(*rows: tuple[LapEnd, int]) -> Table:
    return np.array(list(rows), LAP)


# Rank 0 posts at 10 and 25 us and ends an iteration at 40 us; rank 1 posts at 20 and 30 us.
LAPS = {
    0: laps((POST, MIB), (POST, 3 * MIB), (MARK, 2 * MIB), (END, MIB)),
    1: laps((POST, MIB), (POST, MIB), (MARK, MIB), (END, MIB)),
}
RANKS = [RankResult(rank=0, peak_bytes=3 * MIB), RankResult(rank=1, peak_bytes=MIB)]


def heights(path: str) -> list[tuple[float, float]]:
    """Where each step of a line ends, and how high it is: 0 on the ground."""
    return [(float(x), 214 - float(y)) for y, x in re.findall(r"V([\d.]+)H([\d.]+)", path)]


def test_a_lap_lies_between_the_operations_that_end_it() -> None:
    chart = draw_memory(held(RANKS), Surroundings(laps=LAPS), *tiny_job(), 1000)
    assert chart is not None
    first, second = chart.courses
    scale, third = (1000 - 78 - 24) / 40, 200 / 3
    expected = [(78 + 10 * scale, third), (78 + 25 * scale, 200), (78 + 40 * scale, 2 * third)]
    assert heights(first.path) == [pytest.approx(step, abs=0.1) for step in expected]
    assert heights(second.path) == [pytest.approx((78 + 40 * scale, third), abs=0.1)]
    assert chart.shown == 0
    assert chart.marks == [976.0]
    assert first.told.startswith("rank 0: at most 3.00 MiB, at 1")


def test_without_times_operations_are_counted() -> None:
    chart = draw_memory(held(RANKS), Surroundings(laps=LAPS), None, None, 1000)
    assert chart is not None
    assert not chart.timed
    assert [text for _, text in chart.ticks] == ["0", "1", "2", "3", "4"]
    assert chart.courses[0].told == "rank 0: at most 3.00 MiB, after 1 operations and iterations"


def test_ranks_of_a_band_share_the_highest_line_and_folded_ones_that_of_their_home() -> None:
    ranks = [RankResult(rank=rank, peak_bytes=MIB * (1 + (rank == 1))) for rank in range(130)]
    own = {rank: laps((POST, MIB * (1 + (rank == 1))), (END, 0)) for rank in (0, 1)}
    chart = draw_memory(held(ranks), Surroundings(laps=own, home=lambda rank: rank % 2), None, None, 1000)
    assert chart is not None
    assert len(chart.courses) == 44, "three ranks a row"
    assert {course.told for course in chart.courses if course.row == 0} == {
        "ranks 0-2: at most 2.00 MiB, after 0 operations and iterations"
    }
    assert len({course.path for course in chart.courses}) == 1, "of any three ranks one is odd"


def test_the_capacity_is_drawn_where_it_is_near() -> None:
    near = draw_memory(held(RANKS), Surroundings(laps=LAPS, capacity=4 * MIB), None, None, 1000)
    far = draw_memory(held(RANKS), Surroundings(laps=LAPS, capacity=80 << 30), None, None, 1000)
    assert near is not None
    assert near.capacity == 14
    assert far is not None
    assert far.capacity is None


def test_laps_that_are_not_those_of_the_lane_are_left_out() -> None:
    wrong = {0: laps((MARK, MIB), (POST, MIB), (MARK, MIB), (END, MIB)), 1: LAPS[1]}
    chart = draw_memory(held(RANKS), Surroundings(laps=wrong), *tiny_job(), 1000)
    assert chart is not None
    assert [course.row for course in chart.courses] == [1]
    assert draw_memory(held(RANKS), Surroundings(), *tiny_job(), 1000) is None
    assert draw_memory([], Surroundings(laps=LAPS), *tiny_job(), 1000) is None


def test_many_laps_take_no_more_room_than_there_are_columns() -> None:
    many = {0: laps(*((POST, MIB + lap % 7 * 1000) for lap in range(5000)), (END, 0))}
    chart = draw_memory(held(RANKS), Surroundings(laps=many), None, None, 1000)
    assert chart is not None
    assert len(heights(chart.courses[0].path)) <= COLUMNS


def test_the_page_says_what_peaks_were_made_of_and_how_near_they_came() -> None:
    parts = PeakBreakdown(parameters=MIB, gradients=MIB, optimizer=0, activations=MIB, other=0)
    result = Result(scenario="t", status="ok", world_size=2, ranks=RANKS)
    result.ranks = [RankResult(rank=0, peak_bytes=3 * MIB, peak_breakdown=parts), RANKS[1]]
    html = render_html(result, *tiny_job(), "t.yaml", 1, Surroundings(laps=LAPS, capacity=4 * MIB))
    assert "The dashed line is the capacity of 4.00 MiB, of which at most 75.0 % is used." in html
    (row,) = re.findall(r'<tr><th scope="row" data-value="0" data-course="0">.*', html)
    assert re.findall(r">([\d.]+ MiB)<", row) == [
        "3.00 MiB",
        "1.00 MiB",
        "1.00 MiB",
        "0.00 MiB",
        "1.00 MiB",
        "0.00 MiB",
    ]
    assert re.findall(r'<rect class="(\w+)"', row) == ["parameters", "gradients", "optimizer", "activations", "other"]
    told = render_html(result, *tiny_job(), "t.yaml", 1, Surroundings(capacity=80 << 30))
    assert "At most 0.0 % of the capacity of 80.0 GiB is used." in told


def test_beside_a_line_of_tensors_the_page_says_that_the_capacity_is_of_what_is_reserved() -> None:
    around = Surroundings(laps=LAPS, capacity=4 * MIB)
    said = []
    for reserved in (None, 4 * MIB):
        ranks = [RankResult(rank=0, peak_bytes=3 * MIB, reserved_bytes=reserved), RANKS[1]]
        result = Result(scenario="t", status="ok", world_size=2, ranks=ranks)
        html = render_html(result, *tiny_job(), "t.yaml", 1, around)
        said.append("the capacity bounds what is reserved, which is more" in html)
    assert said == [False, True]


def test_what_ranks_left_is_read_and_what_cannot_be_is_left_out(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.logs.mkdir()
    np.save(folder.logs / laps_name(0), LAPS[0])
    (folder.logs / laps_name(1)).write_bytes(b"\x93NUMPY cut off")
    np.save(folder.logs / laps_name(2), np.zeros(3))
    scenario = Scenario(name="t", program=Program(module="t"), world=World(size=4), devices=Devices(memory=1 << 30))
    around = surroundings(folder, scenario, None)
    assert list(around.laps) == [0]
    assert (around.laps[0] == LAPS[0]).all()
    assert (around.capacity, around.trees) == (1 << 30, None)


def test_sums_along_trees_are_counted_along_trees(tmp_path: Path) -> None:
    graph, _ = tiny_job()
    scenario = Scenario(
        name="t", program=Program(module="t"), world=World(size=2), network=Network(algorithm="tree")
    )  # fmt: skip
    around = surroundings(Folder(tmp_path), scenario, graph)
    assert around.trees is not None
    assert around.trees.along.tolist() == [True, False]
