"""Calibration: which iterations share their segments, and what the spread says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prism.core.graph import Graph, NodeKind, OpKind
from prism.core.measuring.calibration import (
    NOT_MEASURED,
    Calibration,
    calibrate,
    iterations_to_run,
    place,
    spread_quantiles,
)
from prism.core.measuring.segments import AFTER, FREE, WAITED, Segments
from prism.core.timeline.replay import evaluate, make_plan
from tests.core.jobs import Job, data_parallel


def steps(sizes: list[int], tail: bool = False) -> Graph:
    """One rank whose iteration k computes, all-reduces sizes[k] bytes with itself, and computes again."""
    job = Job(1)
    for size in sizes:
        job.compute(0, 1)
        job.wait(0, job.post(0, OpKind.ALL_REDUCE, size))
        job.compute(0, 1)
        job.mark(0)
    if tail:
        job.compute(0, 1)
    return job.graph()


def segments(graph: Graph) -> np.ndarray:
    return np.flatnonzero(graph.nodes["kind"] == NodeKind.COMPUTE)


def measure(graph: Graph, *values: int) -> np.ndarray:
    measured = np.zeros(len(graph.nodes), np.int64)
    measured[segments(graph)] = values
    return measured


def free(graph: Graph) -> np.ndarray:
    return np.full(len(graph.nodes), FREE)


def test_each_iteration_keeps_its_own_durations() -> None:
    graph = steps([8, 8, 8, 8])
    measured = measure(graph, 900, 901, 10, 20, 12, 26, 90, 23)
    assert calibrate(graph, measured, warmup=1).timings.durations.tolist() == measured.tolist()


def test_an_outlier_takes_the_median_of_alike_iterations() -> None:
    graph = steps([8] * 7)
    found = calibrate(graph, measure(graph, 900, 7, 10, 7, 12, 7, 11, 7, 500, 7, 13, 7, 12, 7), warmup=1)
    assert found.timings.durations[segments(graph)].tolist()[::2] == [900, 10, 12, 11, 12, 13, 12]


def test_an_iteration_that_does_something_else_is_no_outlier() -> None:
    graph = steps([8, 8, 8, 16, 8, 8])
    measured = measure(graph, 10, 1, 11, 1, 10, 1, 500, 1, 12, 1, 11, 1)
    assert calibrate(graph, measured, warmup=0).timings.durations.tolist() == measured.tolist()


def test_an_iteration_in_which_a_fault_was_acted_out_is_no_outlier() -> None:
    graph = steps([8] * 6)
    measured = measure(graph, 10, 1, 11, 1, 10, 1, 11, 1, 10, 1, 500, 1)
    assert calibrate(graph, measured, warmup=0, changes={0: (5,)}).timings.durations.tolist() == measured.tolist()
    assert calibrate(graph, measured, warmup=0).timings.durations[segments(graph)].tolist()[-2] == 10


def test_what_follows_the_last_mark_is_no_outlier() -> None:
    graph = steps([8] * 5, tail=True)
    measured = measure(graph, *[1] * 10, 77)
    assert calibrate(graph, measured, warmup=0).timings.durations.tolist() == measured.tolist()


def test_messages_to_different_peers_are_not_alike() -> None:
    job = Job(3)
    for peer in (1, 2, 1):
        job.compute(0, 1)
        job.send(0, peer, 8)
        job.recv(peer, 0, 8)
        job.mark(0)
    graph = job.graph()
    found = calibrate(graph, measure(graph, 10, 50, 20), warmup=0)
    assert found.spread[["samples", "median"]].tolist() == [(2, 15), (1, 50)]


def test_ranks_do_not_share() -> None:
    graph = data_parallel(2, iterations=2, buckets=1)
    measured = np.where(graph.node_rank() == 1, 7, 5)
    found = calibrate(graph, measured, warmup=0)
    assert found.timings.durations[segments(graph)].tolist() == [5] * 6 + [7] * 6


def test_spread_counts_samples_and_outliers() -> None:
    graph = steps([8] * 6)
    measured = measure(graph, 1, 1, 10, 5, 12, 5, 14, 5, 16, 5, 1000, 5)
    found = calibrate(graph, measured, warmup=1)
    first, second = segments(graph)[2:4].tolist()
    assert found.spread.tolist() == [(0, first, 5, 1, 14, 4), (0, second, 5, 0, 5, 0)]


def test_an_iteration_that_was_not_measured_takes_the_medians_of_those_alike() -> None:
    graph = steps([8, 8, 8, 8, 16, 8, 16])
    found = calibrate(graph, measure(graph, 900, 9, 10, 4, 12, 6, 14, 8, 50, 5, *[NOT_MEASURED] * 4), warmup=1)
    assert found.timings.durations[segments(graph)].tolist() == [900, 9, 10, 4, 12, 6, 14, 8, 50, 5, 12, 6, 50, 5]
    assert found.spread["samples"].tolist() == [3, 3, 1, 1]
    assert found.spread["outliers"].tolist() == [0, 0, 0, 0]


def test_what_is_like_nothing_measured_stays_unmeasured() -> None:
    graph = steps([8, 8, 16])
    found = calibrate(graph, measure(graph, 1, 1, 1, 1, NOT_MEASURED, NOT_MEASURED), warmup=0)
    assert found.timings.durations[segments(graph)].tolist()[-2:] == [NOT_MEASURED] * 2


@pytest.mark.parametrize(
    ("sizes", "wanted", "changes", "needed"),
    [
        ([8] * 6, 3, (), 3),
        ([8, 8, 8, 8, 16, 8], 3, (), 5),  # goes on to the first that is unlike
        ([16, 8, 8, 16, 8, 8], 2, (), 4),  # the warm-up is no sample of anything
        ([8] * 6, 3, (4,), 5),  # before and after a fault begins are not alike
        ([8, 8, 8, 8, 16, 32], 3, (), 6),
    ],
)
def test_how_many_iterations_have_to_run(sizes: list[int], wanted: int, changes: tuple[int, ...], needed: int) -> None:
    graph = steps(sizes, tail=True)
    assert iterations_to_run(graph, wanted, 1, {0: changes}).tolist() == [needed]
    measured = np.full(len(graph.nodes), NOT_MEASURED)
    place(graph, measured, free(graph), 0, Segments([*range(2 * needed)]))
    found = calibrate(graph, measured, 1, {0: changes}).timings.durations
    assert (found != NOT_MEASURED).all()
    assert found[segments(graph)].tolist()[-1] == 0, "what follows the last mark"


def test_a_rank_that_ends_fewer_iterations_runs_whole() -> None:
    job = Job(3)
    for rank, iterations in enumerate((4, 2, 0)):
        for _ in range(iterations):
            job.compute(rank, 1)
            job.mark(rank)
    assert iterations_to_run(job.graph(), 2, 1).tolist() == [2, 0, 0]


def test_a_whole_program_keeps_what_follows_its_last_mark() -> None:
    graph = steps([8], tail=True)
    measured = np.full(len(graph.nodes), NOT_MEASURED)
    place(graph, measured, free(graph), 0, Segments([5, 6, 7]))
    assert measured[segments(graph)].tolist() == [5, 6, 7]


def test_the_spread_is_weighted_by_time() -> None:
    graph = steps([8] * 5)
    long, short = (96, 98, 100, 102, 104), (2, 4, 6, 8, 10)
    measured = measure(graph, *[value for pair in zip(long, short, strict=True) for value in pair])
    spread = calibrate(graph, measured, warmup=0).spread
    assert spread_quantiles(spread, (0.5, 0.94, 0.95, 1)) == [0.04, 0.04, pytest.approx(2 / 3), pytest.approx(2 / 3)]


def test_there_is_no_spread_of_single_samples() -> None:
    graph = steps([8, 16, 32])
    assert spread_quantiles(calibrate(graph, measure(graph, *[1] * 6), warmup=0).spread, (0.5,)) is None


def test_other_nodes_get_no_duration() -> None:
    graph = steps([8, 8])
    found = calibrate(graph, np.full(len(graph.nodes), 9), warmup=0)
    assert found.timings.durations.tolist() == [9 if kind == NodeKind.COMPUTE else 0 for kind in graph.nodes["kind"]]


@pytest.mark.parametrize("warmup", [0, 5])
def test_a_program_without_iterations_or_segments_is_left_alone(warmup: int) -> None:
    job = Job(1)
    job.mark(0)
    job.mark(0)
    job.compute(0, 1)
    found = calibrate(job.graph(), np.array([0, 0, 3]), warmup)
    assert found.timings.durations.tolist() == [0, 0, 3]
    assert len(found.spread) == 0


def test_slices_measured_apart_become_one_consistent_timeline() -> None:
    graph = data_parallel(2, iterations=1, buckets=1)
    measured = calibrate(graph, np.where(graph.node_rank() == 1, 100, 1), warmup=0).timings.durations
    timeline = evaluate(make_plan(graph), measured, np.array([10]))
    assert timeline.op_start.tolist() == [200]
    assert timeline.node_end[graph.nodes["kind"] == NodeKind.MARK].tolist() == [211, 310]


def test_bad_measurements_are_refused() -> None:
    graph = steps([8])
    with pytest.raises(ValueError, match=r"shape \(2,\); the graph has 5 nodes"):
        calibrate(graph, np.zeros(2, np.int64), warmup=0)
    with pytest.raises(ValueError, match="node 3 has a negative"):
        calibrate(graph, measure(graph, 1, -2), warmup=0)


AHEAD = (6, 10)


class TestAHostThatWasHeldAhead:
    """Iterations of two segments; in some the host was held ahead of its device, and needs 120 and 40 ns by itself."""

    def calibrated(
        self,
        durations: list[int],
        ahead: Sequence[int] = AHEAD,
        waits: Sequence[int] = (),
        warmup: int = 1,
        sizes: Sequence[int] = (),
    ) -> tuple[Calibration, list[int], list[int]]:
        """What is found, and of each segment how long it takes and its slack."""
        graph = steps([*sizes] or [8] * (len(durations) // 2))
        measured, hosts = measure(graph, *durations), free(graph)
        needs = [(2 * iteration + half, (120, 40)[half]) for iteration in ahead for half in (0, 1)]
        place(graph, measured, hosts, 0, Segments(durations, [(n, WAITED if n in waits else ns) for n, ns in needs]))
        found = calibrate(graph, measured, warmup, hosts=hosts)
        return found, found.timings.durations[segments(graph)].tolist(), found.timings.slack[segments(graph)].tolist()

    def test_what_it_saves_is_the_slack_of_all_alike_iterations(self) -> None:
        durations = [100, 50] * 11
        durations[12:14], durations[20:22] = (60, 52), (64, 48)
        found, lasts, slack = self.calibrated(durations)
        assert lasts == [100, 50] * 11
        assert slack == [0, 0, *[38, 0] * 10]
        assert found.spread["samples"].tolist() == [8, 8]
        assert not found.timings.waited.any()

    def test_it_is_none_where_no_host_was_held(self) -> None:
        found, _, slack = self.calibrated([100, 50] * 7, ahead=())
        assert found.spread["samples"].tolist() == [6, 6]
        assert not any(slack)

    def test_a_host_that_needs_less_than_its_device_leaves_none(self) -> None:
        _, lasts, slack = self.calibrated([300, 50] * 6 + [250, 50], ahead=AHEAD[:1])
        assert (lasts, any(slack)) == ([300, 50] * 7, False)

    def test_a_small_part_of_a_segment_is_none(self) -> None:
        assert not any(self.calibrated([100, 50] * 6 + [96, 50], ahead=AHEAD[:1])[2])

    def test_where_it_waits_for_its_device_in_most_of_them_it_does_in_all(self) -> None:
        found, *_ = self.calibrated([100, 50] * 15, ahead=(6, 10, 14), waits=(12, 20, 29))
        assert found.timings.waited[found.timings.durations > 0].tolist() == [False, False, *[True, False] * 14]

    def test_for_that_iterations_are_alike_whatever_their_sizes(self) -> None:
        _, lasts, slack = self.calibrated([100, 50] * 6 + [70, 50], ahead=AHEAD[:1], sizes=[*range(8, 14), 99])
        assert lasts == [100, 50] * 7
        assert slack == [0, 0, *[30, 0] * 6]

    def test_where_all_were_held_a_segment_takes_what_its_host_or_its_device_needs(self) -> None:
        _, lasts, slack = self.calibrated([100, 50] * 6 + [70, 55], ahead=AHEAD[:1], warmup=6)
        assert lasts == [100, 50] * 6 + [120, 55]
        assert slack == [0] * 12 + [50, 0]

    def test_slack_is_no_longer_than_the_segment_is_whatever_others_of_its_kind_are(self) -> None:
        durations = [1000, 50] * 5 + [10, 50] * 5 + [6, 50]
        found, _, _ = self.calibrated(durations, ahead=(10,), sizes=[8] * 5 + [16] * 6)
        assert (found.timings.slack <= found.timings.durations).all()
        assert found.timings.slack.any()

    def test_an_iteration_after_one_that_was_held_does_not_count(self) -> None:
        graph = steps([8] * 9)
        durations = [100, 50] * 6 + [60, 50] + [140, 80] + [100, 50]
        measured, hosts = measure(graph, *durations), free(graph)
        place(graph, measured, hosts, 0, Segments(durations, [(12, 120), (13, 40), (14, AFTER), (15, AFTER)]))
        found = calibrate(graph, measured, warmup=1, hosts=hosts)
        assert found.timings.durations[segments(graph)].tolist() == [100, 50] * 9
        assert found.spread["samples"].tolist() == [6, 6]

    def test_what_was_not_measured_has_the_slack_of_what_was(self) -> None:
        durations = [100, 50] * 6 + [60, 50] + [NOT_MEASURED, NOT_MEASURED] * 2
        _, lasts, slack = self.calibrated(durations, ahead=AHEAD[:1])
        assert lasts == [100, 50] * 9
        assert slack == [0, 0, *[40, 0] * 8]

    def test_where_only_a_held_iteration_of_a_kind_ran_the_others_have_its_times(self) -> None:
        durations = [100, 50] * 6 + [70, 55] + [100, 50] + [NOT_MEASURED, NOT_MEASURED]
        _, lasts, _ = self.calibrated(durations, ahead=AHEAD[:1], sizes=[8] * 6 + [16, 8, 16])
        assert NOT_MEASURED not in lasts

    def test_another_measurement_takes_its_place(self) -> None:
        graph = steps([8])
        measured, hosts = measure(graph, 1, 1), free(graph)
        place(graph, measured, hosts, 0, Segments([1, 1], [(0, 5)]))
        assert (hosts != FREE).any()
        place(graph, measured, hosts, 0, Segments([1, 1]))
        assert (hosts == FREE).all()
