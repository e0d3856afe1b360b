"""Changed graphs against the truth: the graph of the same program, run with what was changed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prism.core.graph import Graph, NodeKind
from prism.core.prismtrace import Trace, encode
from prism.core.what_if.microbatches import with_micro_batches
from prism.core.what_if.routes import find_routes, segments
from prism.core.what_if.routing import with_routing
from tests.running import capture, scenario

PROGRAMS = Path(__file__).with_name("programs")
Captured = Callable[..., Graph]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """Captures a program of tests/programs with some arguments, once for all tests of this module."""

    @functools.cache
    def of(world: int, program: str, *args: object) -> Graph:
        given = scenario(PROGRAMS / f"{program}.py", tuple(map(str, args)), world)
        run = capture(given, tmp_path_factory.mktemp(program) / "out")
        assert run.graph is not None, run.result.diagnosis
        return nominal(run.graph)

    return of


def nominal(graph: Graph) -> Graph:
    """The graph with durations that follow from what comes before and after, and on a route from the bytes."""
    nodes, kind = graph.nodes, graph.nodes["kind"]
    compute = kind == NodeKind.COMPUTE
    what = 10 * (nodes["site"].astype(np.int64) + 1) + kind
    before, after = np.roll(what, 1), np.roll(what, -1)
    before[graph.lane_ptr[:-1]] = 0
    duration = np.where(compute, 1_000_000 + 1000 * before + after + graph.node_rank(), 0)
    for routes in find_routes(graph, None):
        got = graph.splits[routes.cells(graph, routes.there)].sum(axis=1)
        for first, last, nbytes in zip(*(column.ravel() for column in (*segments(graph, routes), got)), strict=True):
            duration[first:last] = np.where(compute[first:last], 10 * nbytes, 0)
    return graph.with_durations(duration)


def encoded(graph: Graph) -> bytes:
    return b"".join(encode(Trace(graph)))


@pytest.mark.parametrize(
    ("world", "program", "schedule", "widths", "numbers"),
    [
        (3, "micro_batches", "gpipe", (1, 1), (2, 5)),
        (4, "micro_batches", "1f1b", (1, 1), (5, 8)),
        (4, "micro_batches", "gpipe", (1, 2), (3, 4)),
        (4, "micro_batches", "1f1b", (2, 1), (3, 7)),
        (3, "stages", "ScheduleGPipe", (), (3, 6)),
        (3, "stages", "Schedule1F1B", (), (4, 9)),
    ],
)
def test_micro_batches_make_the_graph_that_the_program_has_with_as_many(
    captured: Captured, world: int, program: str, schedule: str, widths: tuple[int, ...], numbers: tuple[int, int]
) -> None:
    few, many = (captured(world, program, schedule, number, *widths) for number in numbers)
    assert encoded(with_micro_batches(few, *numbers)) == encoded(many)
    assert encoded(with_micro_batches(many, *numbers[::-1])) == encoded(few)


@pytest.mark.parametrize("schedule", ["ScheduleInterleaved1F1B", "ScheduleLoopedBFS"])
def test_interleaved_stages_are_refused(captured: Captured, schedule: str) -> None:
    graph = captured(2, "stages", schedule, 4)
    with pytest.raises(ValueError, match="rank 0, iteration 0: each of 4 micro-batches would have 3 like messages"):
        with_micro_batches(graph, 4, 8)


@pytest.mark.parametrize("hottest", [1, 2, 3])
@pytest.mark.parametrize("was", [1, 2, 3])
def test_routing_makes_the_graph_that_the_program_has_when_routed_so(
    captured: Captured, was: int, hottest: int
) -> None:
    tokens = {1: (12, 12, 12, 12), 2: (24, 8, 8, 8), 3: (36, 4, 4, 4)}
    before, after = (captured(4, "experts", *tokens[number]) for number in (was, hottest))
    assert encoded(with_routing(before, hottest)) == encoded(after)
