"""The communication matrix as a picture: cells, levels, and what stands for more ranks than there is room for."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from prism.core.graph import Graph
from prism.report.heatmap import LEVELS, MAX_PLACES, draw_heatmap
from tests.core.jobs import Job, data_parallel


def messages(world_size: int, moved: dict[tuple[int, int], int]) -> Graph:
    job = Job(world_size)
    for (source, target), nbytes in moved.items():
        job.send(source, target, nbytes)
        job.wait(target, job.recv(target, source, nbytes))
    return job.graph()


def cells(shape: str) -> list[tuple[int, int]]:
    return [(int(y), int(x)) for x, y in re.findall(r"M(\d+) (\d+)", shape)]


def test_rows_send_columns_receive_and_levels_are_even_steps_down_from_the_most() -> None:
    moved = {(0, 1): 10, (1, 2): 10_000_000 // 17, (2, 3): 6_000_000, (3, 0): 10_000_000}
    heat = draw_heatmap(messages(4, moved), 2)
    assert heat is not None
    at = heat.cell
    drawn = [cells(shape) for shape in heat.shapes]
    assert drawn == [[(0, at)], [], [], [(at, 2 * at)], [], [(2 * at, 3 * at), (3 * at, 0)]]
    assert (heat.least, heat.most, heat.total) == (10, 10_000_000, 16_588_245)
    assert heat.busiest == ("3", "0")
    assert [pair[:2] for pair in heat.pairs] == [("3", "0"), ("2", "3"), ("1", "2"), ("0", "1")]
    assert heat.rules == [2 * at], "a line between the nodes"


def test_equal_cells_are_all_of_the_highest_level() -> None:
    heat = draw_heatmap(messages(3, {(0, 1): 5, (1, 2): 5}), 1)
    assert heat is not None
    assert [len(cells(shape)) for shape in heat.shapes] == [0] * (LEVELS - 1) + [2]
    assert heat.rules == []


def test_cells_that_are_nearly_equal_look_equal() -> None:
    heat = draw_heatmap(messages(3, {(0, 1): 100, (1, 2): 101}), 1)
    assert heat is not None
    assert [len(cells(shape)) for shape in heat.shapes] == [0] * (LEVELS - 1) + [2]


def test_a_job_that_moves_nothing_has_no_picture() -> None:
    assert draw_heatmap(data_parallel(1), 8) is None


@pytest.mark.parametrize(
    ("world_size", "per_node", "kind", "places", "busiest"),
    [
        (64, 8, "rank", 64, ("63", "0")),
        (65, 8, "node", 9, ("8", "0")),
        (600, 8, "nodes", 38, ("74", "0-1")),
        (600, 4, "nodes", 50, ("147-149", "0-2")),
    ],
)
def test_many_ranks_are_shown_by_nodes_or_by_several(
    world_size: int, per_node: int, kind: str, places: int, busiest: tuple[str, str]
) -> None:
    heat = draw_heatmap(messages(world_size, {(world_size - 1, 0): 7, (0, 1): 1}), per_node)
    assert heat is not None
    assert (heat.kind, heat.busiest) == (kind, busiest)
    assert heat.side // heat.cell == places <= MAX_PLACES


def test_labels_never_stand_closer_than_they_are_high() -> None:
    heat = draw_heatmap(messages(64, {(0, 1): 1}), 8)
    assert heat is not None
    places = [at for at, _ in heat.labels]
    assert min(b - a for a, b in pairwise(places)) >= 16
