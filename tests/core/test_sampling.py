"""Sampling: who is measured for whom, and when the samples speak for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.graph import Graph, NodeKind
from prism.core.measuring.calibration import NOT_MEASURED
from prism.core.measuring.sampling import Comparison, compare, sample, share
from tests.core.jobs import MS, Job

WARMUP = 1


@pytest.mark.parametrize(("size", "count"), [(1, 1), (2, 2), (3, 2), (8, 2), (16, 2), (17, 3), (64, 5), (1024, 65)])
def test_one_in_sixteen_and_one_more_is_measured(size: int, count: int) -> None:
    assert len(sample(range(size))) == count


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=200, unique=True).map(sorted))
def test_samples_are_spread_over_the_class(ranks: list[int]) -> None:
    chosen, size = sample(ranks), len(ranks)
    for part, rank in enumerate(chosen):
        assert rank in ranks[part * size // len(chosen) : (part + 1) * size // len(chosen)]


@pytest.mark.parametrize("period", [2, 3, 4, 8, 16, 32])
def test_no_mesh_hides_from_the_samples(period: int) -> None:
    places = {rank % period for rank in sample(range(1024))}
    assert len(places) > period // 2


def replicas(size: int, iterations: int) -> Graph:
    """Ranks that compute twice in each iteration."""
    job = Job(size)
    for rank in range(size):
        for _ in range(iterations):
            job.compute(rank, 0)
            job.mark(rank)
    return job.graph()


def compared(*times: Sequence[float], measured: int | None = None) -> Comparison:
    """Two ranks that compute so many ms in each iteration; only the first so many were measured."""
    graph = replicas(2, len(times[0]))
    durations = np.zeros(len(graph.nodes), np.int64)
    durations[graph.nodes["kind"] == NodeKind.COMPUTE] = np.rint(np.concatenate(times) * MS)
    values = durations.copy()
    if measured is not None:
        late = graph.nodes["ref"][np.flatnonzero(graph.nodes["kind"] == NodeKind.MARK)] >= measured
        values[np.flatnonzero(graph.nodes["kind"] == NodeKind.COMPUTE)[late]] = NOT_MEASURED
    (found,) = compare(graph, values, durations, (0, 1), WARMUP)
    return found


def test_equal_ranks_agree() -> None:
    assert compared([90, 10, 12], [30, 10, 12]) == Comparison(0, 1, 2, 0, 1, (10 * MS, 10 * MS), 0.0)


def test_a_slow_rank_does_not() -> None:
    found = compared([10, 10, 10, 20], [10, 11, 12, 22])
    assert found == Comparison(0, 1, iterations=3, differing=3, most=2, times=(10 * MS, 12 * MS), typical=0.1)
    assert not found.agrees


def test_iterations_of_different_lengths_do_not_agree_though_their_medians_do() -> None:
    assert not compared([0, 10, 20, 30, 40, 50], [0, 50, 40, 30, 20, 10]).agrees


def test_a_difference_of_five_percent_is_tolerated() -> None:
    assert compared([0, 100, 100], [0, 104.9, 95.1]).agrees
    assert not compared([0, 100, 100], [0, 105.1, 94.9]).agrees


def test_a_disturbance_in_a_quarter_of_the_iterations_is_excused() -> None:
    assert compared([0, 10, 10, 10, 10], [0, 10, 30, 10, 10]).agrees
    assert not compared([0, 10, 10, 10, 10], [0, 10, 30, 30, 10]).agrees


def test_differences_too_small_to_measure_are_excused() -> None:
    assert compared([0, 0.1, 0.1], [0, 0.3, 0]).agrees
    assert not compared([0, 0.1, 0.1], [0, 0.4, 0.4]).agrees


def test_only_iterations_that_were_measured_count() -> None:
    times = ([0, 10, 10, *[10] * 20], [0, 15, 15, *[10] * 20])
    assert compared(*times).agrees
    assert compared(*times, measured=3).iterations == 2
    assert not compared(*times, measured=3).agrees


@pytest.mark.parametrize("iterations", [0, 1])
def test_without_iterations_after_the_warmup_the_whole_program_counts(iterations: int) -> None:
    job = Job(2)
    for rank in range(2):
        for _ in range(iterations):
            job.mark(rank)
        job.compute(rank, 0)
    graph = job.graph()
    values = np.where(graph.node_rank() == 0, 10, 20) * MS
    (found,) = compare(graph, values, values, (0, 1), WARMUP)
    assert (found.iterations, found.times, found.agrees) == (1, (10 * MS, 20 * MS), False)


def test_the_others_get_the_medians_of_the_samples_segment_by_segment() -> None:
    graph = replicas(5, 2)
    values = np.full((5, 4), 0)
    values[:, ::2] = [[10, 30], [11, 30], [15, 90], [-1, -1], [-1, -1]]
    shared = share(graph, values.ravel(), (0, 1, 2), (3, 4))
    assert shared.reshape(5, 4)[:, ::2].tolist() == [[10, 30], [11, 30], [15, 90], [11, 30], [11, 30]]
