"""Other numbers of micro-batches: the graph that comes out is the one that the schedule has, or there is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.graph import Graph, NodeKind, Stream
from prism.core.prismtrace import Trace, encode
from prism.core.what_if.microbatches import with_micro_batches
from tests.core.jobs import Job, data_parallel
from tests.core.schedules import AHEAD, WAITS, Schedule

SCHEDULES = st.builds(
    Schedule,
    name=st.sampled_from(list(AHEAD)),
    stages=st.integers(2, 4),
    micro_batches=st.integers(2, 10),
    shards=st.integers(1, 2),
    layers=st.integers(0, 2),
    waits=st.sampled_from(WAITS),
)


def encoded(graph: Graph) -> bytes:
    return b"".join(encode(Trace(graph)))


@given(SCHEDULES, st.integers(1, 12))
def test_what_comes_out_is_the_graph_of_the_schedule(schedule: Schedule, after: int) -> None:
    try:
        changed = with_micro_batches(schedule.graph(), schedule.micro_batches, after)
    except ValueError:
        return
    assert encoded(changed) == encoded(schedule.with_micro_batches(after).graph())


@given(SCHEDULES, st.integers(1, 12))
def test_three_repetitions_at_the_first_stage_are_enough(schedule: Schedule, after: int) -> None:
    ahead = AHEAD[schedule.name](schedule.stages - 1, 0)
    schedule = schedule.with_micro_batches(schedule.micro_batches + ahead + 1)
    after += ahead + 1
    changed = with_micro_batches(schedule.graph(), schedule.micro_batches, after)
    assert encoded(changed) == encoded(schedule.with_micro_batches(after).graph())


def test_durations_of_what_is_added_are_those_that_there_are_in_turns() -> None:
    graph = Schedule("gpipe", 2, 4, iterations=1).graph()
    first = graph.nodes[: graph.lane_ptr[1]]
    sends = np.flatnonzero((first["kind"] == NodeKind.POST) & (np.roll(first["duration"], 1) == 1000))
    first["duration"][sends - 1] = [1, 2, 3, 4]
    nodes = with_micro_batches(graph, 4, 9).nodes
    forward = nodes["duration"][: 2 * 9][nodes["kind"][: 2 * 9] == NodeKind.COMPUTE]
    assert forward.tolist() == [1, 2, 3, 4, 2, 3, 4, 2, 3]


@pytest.mark.parametrize(
    ("graph", "before", "after", "text"),
    [
        (data_parallel(2), 3, 6, "no rank sends 3 like messages in an iteration, or a multiple of that; micro-b"),
        (
            Schedule("1f1b", 3, 3).graph(), 3, 6,
            "rank 0, iteration 0: its messages come 3 times, or a multiple, but no part of it that has all of them "
            "comes twice in a row; capture more micro-batches than the pipeline has stages",
        ),
        (
            Schedule("1f1b", 3, 8).graph(), 4, 6,
            "rank 0, iteration 0: each of 4 micro-batches would have 2 like messages on one channel, but they come",
        ),
        (
            Schedule("1f1b", 3, 8).graph(), 8, 1,
            "rank 0, iteration 0: what repeats can be left out 5 times, choose at least 3 micro-batches",
        ),
    ],
)  # fmt: skip
def test_the_rank_is_named_at_which_it_is_not_told(graph: Graph, before: int, after: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        with_micro_batches(graph, before, after)


def test_lanes_with_events_between_them_are_refused() -> None:
    job = Job(1)
    job.lane(0, Stream.COMPUTE)
    with pytest.raises(ValueError, match="a rank has several lanes"):
        with_micro_batches(job.graph(), 4, 8)


def test_as_many_as_before_change_nothing() -> None:
    graph = data_parallel(2)
    assert with_micro_batches(graph, 4, 4) is graph
