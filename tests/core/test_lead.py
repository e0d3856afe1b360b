"""What hosts that run ahead save where their devices wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.graph import Graph, Group, Int64, NodeKind, OpKind
from prism.core.measuring import lead
from prism.core.measuring.lead import Timings, leads, run_ahead
from prism.core.timeline.replay import evaluate, make_plan
from tests.core.jobs import Job


def on_gpus(graph: Graph) -> Graph:
    return replace(graph, groups=tuple(Group(group.name, group.ranks, "nccl") for group in graph.groups))


def timings(graph: Graph, slack: Int64, waited: tuple[int, ...] = ()) -> Timings:
    durations = graph.nodes["duration"].astype(np.int64)
    flags = np.zeros(len(graph.nodes), bool)
    flags[list(waited)] = True
    return Timings(durations, np.minimum(slack, durations), flags)


def computing(graph: Graph, ns: int) -> Int64:
    return np.where(graph.nodes["kind"] == NodeKind.COMPUTE, ns, 0)


def tensor_parallel(segments: int, kind: OpKind = OpKind.ALL_REDUCE, backend: str = "nccl") -> Graph:
    """Two ranks that compute for 100 ns before and after so many operations, which they wait for at once."""
    job = Job(2)
    for rank in range(2):
        for _ in range(segments):
            job.compute(rank, 100)
            job.wait(rank, job.post(rank, kind, 8 if kind is not OpKind.BARRIER else 0))
        job.compute(rank, 100)
        job.mark(rank)
    graph = job.graph()
    return on_gpus(graph) if backend == "nccl" else graph


def ended(graph: Graph, durations: Int64, cost: int) -> int:
    costs = np.full(len(graph.ops), cost)
    return int(evaluate(make_plan(graph), durations, costs).node_end.max())


def lasts(graph: Graph, given: Timings, cost: int) -> int:
    return ended(graph, run_ahead(graph, given, np.full(len(graph.ops), cost)), cost)


def test_what_the_device_waits_for_others_the_host_gains() -> None:
    graph = tensor_parallel(3)
    # Each segment takes 100 ns with a host that has no lead, and 60 with one that is far ahead.
    assert lasts(graph, timings(graph, computing(graph, 40)), cost=0) == 400
    assert lasts(graph, timings(graph, computing(graph, 40)), cost=30) == 400, "the host is the bottleneck"
    assert lasts(graph, timings(graph, computing(graph, 40)), cost=100) == 100 + 3 * (100 + 60)


def test_lead_is_kept_until_it_is_used_up() -> None:
    job = Job(1)
    for cost in (1, 0, 0, 0):
        job.compute(0, 100)
        job.wait(0, job.post(0, OpKind.ALL_REDUCE, 8 * cost))
    graph = on_gpus(job.graph())
    costs = graph.ops["nbytes"].astype(np.int64) * 10  # the first takes 80 ns
    found = run_ahead(graph, timings(graph, computing(graph, 30)), costs)
    assert found[graph.nodes["kind"] == NodeKind.COMPUTE].tolist() == [100, 70, 70, 80]


@pytest.mark.parametrize(("kind", "backend"), [(OpKind.BARRIER, "nccl"), (OpKind.ALL_REDUCE, "gloo")])
def test_a_host_that_waits_itself_gains_nothing(kind: OpKind, backend: str) -> None:
    graph = tensor_parallel(3, kind, backend)
    assert lasts(graph, timings(graph, computing(graph, 40)), cost=100) == 3 * 200 + 100


def test_a_host_that_waits_for_its_device_has_no_lead_after_that() -> None:
    graph = tensor_parallel(3)
    second = int(np.flatnonzero(graph.nodes["kind"] == NodeKind.COMPUTE)[1])
    found = run_ahead(graph, timings(graph, computing(graph, 20), waited=(second,)), np.full(len(graph.ops), 15))
    first_rank = found[: graph.lane_ptr[1]][graph.nodes["kind"][: graph.lane_ptr[1]] == NodeKind.COMPUTE]
    assert first_rank.tolist() == [100, 85, 85, 85]
    job = Job(1)
    job.wait(0, job.post(0, OpKind.ALL_REDUCE, 8))
    job.compute(0, 100)
    job.compute(0, 100)
    graph = on_gpus(job.graph())
    for waited, expected in (((), [80, 80]), ((2,), [80, 100])):
        found = run_ahead(graph, timings(graph, computing(graph, 20), waited), np.full(1, 1000))
        assert found[-2:].tolist() == expected


def test_without_slack_nothing_changes() -> None:
    graph = tensor_parallel(2)
    given = timings(graph, computing(graph, 0))
    assert run_ahead(graph, given, np.full(2, 9)) is given.durations


def test_one_rank_that_is_slow_lets_the_others_gain_a_lead() -> None:
    job = Job(2)
    for rank, first in enumerate((100, 500)):
        job.compute(rank, first)
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 8))
        for _ in range(2):
            job.compute(rank, 100)
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 8))
    graph = on_gpus(job.graph())
    found = run_ahead(graph, timings(graph, computing(graph, 50)), np.zeros(3, np.int64))
    of = found[graph.nodes["kind"] == NodeKind.COMPUTE].tolist()
    assert of == [100, 50, 50, 500, 100, 100], "rank 1 waits for nobody"


class Segment(NamedTuple):
    """What host and device each take for a segment, and how long the operation after it; ns."""

    host: int
    device: int
    cost: int
    waits: bool  # whether the host waits for the device at its end

    def lasts(self, lead: int) -> int:
        """How long it takes the device."""
        return max(self.device, self.host - lead)


def on_two(segments: Sequence[Segment], costs: bool) -> list[int]:
    """How long each segment takes the device."""
    ahead, found = 0, []
    for segment in segments:
        lasts = segment.lasts(ahead)
        found.append(lasts)
        ahead = 0 if segment.waits else ahead + lasts - segment.host
        ahead += segment.cost if costs else 0
    return found


SEGMENT = st.builds(Segment, st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.booleans())
SEGMENTS = st.lists(SEGMENT, min_size=1, max_size=20)


@given(SEGMENTS)
def test_is_what_a_host_and_a_device_would_do(segments: list[Segment]) -> None:
    job = Job(1)
    alone = on_two(segments, costs=False)
    for lasts in alone:
        job.compute(0, lasts)
        job.wait(0, job.post(0, OpKind.ALL_REDUCE, 8))
    graph = on_gpus(job.graph())
    nodes = np.flatnonzero(graph.nodes["kind"] == NodeKind.COMPUTE)
    slack = np.zeros(len(graph.nodes), np.int64)
    slack[nodes] = [lasts - segment.device for lasts, segment in zip(alone, segments, strict=True)]
    given = timings(graph, slack, tuple(node for node, one in zip(nodes.tolist(), segments, strict=True) if one.waits))
    found = run_ahead(graph, given, np.array([segment.cost for segment in segments], np.int64))
    assert found[nodes].tolist() == on_two(segments, costs=True)


@pytest.mark.parametrize("ranks", [2, 5])
@given(data=st.data())
def test_is_what_hosts_and_devices_would_do_that_wait_for_each_other(ranks: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    programs = [data.draw(st.lists(SEGMENT, min_size=count, max_size=count)) for _ in range(ranks)]
    costs = [data.draw(st.integers(0, 99)) for _ in range(count)]
    job, slack, waited = Job(ranks), list[int](), list[bool]()
    for rank, segments in enumerate(programs):
        for lasts, segment in zip(on_two(segments, costs=False), segments, strict=True):
            job.compute(rank, lasts)
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 8))
            slack.append(lasts - segment.device)
            waited.append(segment.waits)
    graph = on_gpus(job.graph())
    nodes = np.flatnonzero(graph.nodes["kind"] == NodeKind.COMPUTE)
    given = timings(graph, computing(graph, 0), tuple(nodes[waited].tolist()))
    given.slack[nodes] = slack
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lead, "ENOUGH", 0)
        found = run_ahead(graph, given, np.array(costs, np.int64))[nodes].reshape(ranks, count)
    at, leads_of = [0] * ranks, [0] * ranks
    for number in range(count):
        for rank, segments in enumerate(programs):
            segment, before = segments[number], leads_of[rank]
            lasts = segment.lasts(before)
            assert found[rank, number] == lasts
            at[rank] += lasts
            leads_of[rank] = 0 if segment.waits else before + lasts - segment.host
        over = max(at) + costs[number]
        leads_of = [of + over - mine for of, mine in zip(leads_of, at, strict=True)]
        at = [over] * ranks


def test_long_runs_of_many_ranks_have_leads_that_a_number_can_hold() -> None:
    changes = np.full(200_000, 5 * 10**9)
    changes[::2] *= -1
    resets = np.zeros(len(changes), bool)
    resets[::10] = True
    expected = np.tile([0, 0, 5, 0, 5, 0, 5, 0, 5, 0], len(changes) // 10) * 10**9
    assert leads(changes, resets).tolist() == expected.tolist()


@given(st.lists(st.tuples(st.integers(-50, 50), st.booleans()), min_size=1, max_size=40))
def test_leads_are_what_a_loop_says(steps: list[tuple[int, bool]]) -> None:
    now, expected = 0, []
    for change, reset in steps:
        now = 0 if reset else now
        expected.append(now)
        now = max(0, now + change)
    changes = np.array([change for change, _ in steps], np.int64)
    assert leads(changes, np.array([True, *(reset for _, reset in steps[1:])])).tolist() == expected
