"""Predictions of whole jobs against arithmetic, to the nanosecond.

The jobs of benchmarks/programs/sleeping.py are captured and calibrated in virtual time (programs/virtual_time.py): a
segment lasts exactly as long as the program asks to sleep in it. So what PRISM predicts must be what follows from the
program's own numbers: a closed form where there is one, else a recurrence over the tasks of the pipeline.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.programs.schedules import breadth_first, interleaved, one_f_one_b, zero_bubble
from prism import trace
from prism.core.graph import Graph, Timeline
from prism.core.timeline.engine import simulate
from prism.core.timeline.network import Costs
from prism.core.timeline.replay import evaluate, jitter, make_plan
from prism.prediction import predict as replay
from prism.scenario import Calibrate, Link, Network, Slow, WhatIf
from tests.core.test_replay import interpret
from tests.running import predict, scenario

PROGRAMS = Path(__file__).parents[1] / "benchmarks" / "programs"
WORLDS = (4, 8)
ITERATIONS, WARMUP = 2, 1
LATENCY = 100_000  # ns of a step; a byte takes 1 ns
FREE = Network(model="none")
LINKED = Network(intra_node=Link(bandwidth=10**9, latency=LATENCY))
PIPELINES = ("pipeline", "zero_bubble", "interleaved", "breadth_first", "two_dimensional")
JOBS = ("data_parallel", "variable", "experts", *PIPELINES)

Task = tuple[str, int, int]  # kind, chunk, micro-batch


@functools.cache
def recorded(job: str, world: int, *slowed: str) -> Graph:
    """The calibrated graph of a job in virtual time."""
    args = (str(PROGRAMS / "sleeping.py"), job, str(ITERATIONS), *slowed)
    given = scenario(PROGRAMS / "virtual_time.py", args, world, calibrate=Calibrate(warmup=WARMUP))
    with tempfile.TemporaryDirectory() as folder:
        assert predict(given, Path(folder) / "out").result.warnings == []
        return trace.read(Path(folder) / "out" / "graph.prism").graph


def iterations(graph: Graph, network: Network, *variants: WhatIf) -> list[int]:
    """What PRISM predicts for each iteration after the warm-up, in ns; of a variant, the median alone."""
    calibrate = Calibrate(warmup=WARMUP)
    given = scenario(PROGRAMS / "sleeping.py", world=graph.world_size, network=network, calibrate=calibrate)
    prediction = replay(graph, given, variants)
    return [v.iteration_ns_median or 0 for v in prediction.what_if] or prediction.analysis.iteration_ns


def ns(milliseconds: float) -> int:
    return round(milliseconds * 1e6)


# -- three ways through one graph --------------------------------------------------------------------------------------


def columns(timeline: Timeline) -> tuple[list[int], ...]:
    return tuple(getattr(timeline, name).tolist() for name in ("node_start", "node_end", "op_start", "op_end"))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("job", JOBS)
def test_replay_the_engine_and_a_plain_interpreter_agree_on_every_node(job: str, world: int) -> None:
    graph = recorded(job, world)
    durations = jitter(graph.nodes["duration"], sigma=0.3, seed=world, draw=0)
    latency, transfer = np.random.default_rng(world).integers(0, 20_000_000, (2, len(graph.ops)))  # so that ops queue
    replayed = evaluate(make_plan(graph), durations, latency + transfer)
    simulated = simulate(graph, durations, Costs(latency, transfer)).timeline
    expected = interpret(graph, durations.tolist(), (latency + transfer).tolist())
    assert columns(replayed) == expected
    assert columns(simulated) == expected


# -- closed forms ------------------------------------------------------------------------------------------------------


def all_reduce_ns(members: int, network: Network) -> int:
    """A ring over 256 bytes: 2(n - 1) steps, and as many n-ths of the bytes."""
    return 2 * (members - 1) * LATENCY + 2 * (members - 1) * 256 // members if network is LINKED else 0


def data_parallel_ns(rank: int, scale: float = 1.0) -> int:
    """What a rank computes in an iteration: forward, and four buckets of a backward."""
    return ns(40 * scale * (1 + 0.05 * (rank % 3))) + 4 * ns(20 * scale)


@pytest.mark.parametrize("network", [FREE, LINKED], ids=["free", "linked"])
@pytest.mark.parametrize("world", WORLDS)
def test_data_parallel_takes_the_longest_rank_and_the_last_bucket(world: int, network: Network) -> None:
    longest = max(data_parallel_ns(rank) for rank in range(world))
    expected = [longest + all_reduce_ns(world, network)] * (ITERATIONS - WARMUP)
    assert iterations(recorded("data_parallel", world), network) == expected


@pytest.mark.parametrize("network", [FREE, LINKED], ids=["free", "linked"])
@pytest.mark.parametrize("world", WORLDS)
def test_variable_lengths_take_the_longest_rank_of_each_iteration(world: int, network: Network) -> None:
    expected = [
        max(data_parallel_ns(rank, 0.6 + 0.2 * ((7 * rank + 3 * step) % 5)) for rank in range(world))
        + all_reduce_ns(world, network)
        for step in range(WARMUP, ITERATIONS)
    ]
    assert iterations(recorded("variable", world), network) == expected


def exchange_ns(sent: np.ndarray, network: Network) -> int:
    """An all_to_all by the bytes from i to j: n - 1 steps, and the bytes of the member with most to do."""
    if network is FREE:
        return 0
    others = sent - np.diag(sent.diagonal())
    return (len(sent) - 1) * LATENCY + int(max(others.sum(0).max(), others.sum(1).max()))


@pytest.mark.parametrize("network", [FREE, LINKED], ids=["free", "linked"])
@pytest.mark.parametrize("world", WORLDS)
def test_experts_take_the_busiest_expert_of_each_layer(world: int, network: Network) -> None:
    expected = []
    for step in range(WARMUP, ITERATIONS):
        total = 0
        for layer in range(2):
            tokens = np.array([[1 + (i + j + layer + step) % 3 for j in range(world)] for i in range(world)])
            total += exchange_ns(np.full_like(tokens, 8), network)  # the counts
            total += exchange_ns(16 * tokens, network) + exchange_ns(16 * tokens.T, network)
            total += max(ns(10.0 * int(received) / world) for received in tokens.sum(0)) + ns(15)
        expected.append(total)
    assert iterations(recorded("experts", world), network) == expected


# -- pipelines ---------------------------------------------------------------------------------------------------------


class Pipeline:
    """One pipeline, worked through task by task.

    A rank does its tasks in order. A task whose predecessor is another rank's begins one hop after that is done and the
    rank is free; then its message has arrived. A rank ends an iteration when all that it sent has arrived.
    """

    def __init__(self, orders: list[list[Task]], costs: list[dict[str, int]], hop: int = 0, chunks: int = 1) -> None:
        self.orders, self.costs, self.hop = orders, costs, hop
        self.ranks, self.stages = len(orders), chunks * len(orders)
        self.free = [0] * self.ranks

    def iterate(self) -> list[int]:
        """One iteration more: when each rank has ended it."""
        done: dict[Task, int] = {}  # kind, stage, micro-batch
        arrived, at = [0] * self.ranks, [0] * self.ranks
        while any(self._go_on(rank, done, arrived, at) for rank in range(self.ranks)):
            pass
        assert at == [len(order) for order in self.orders], "the order is none that can run"
        self.free = [max(mine) for mine in zip(self.free, arrived, strict=True)]
        return self.free

    def _go_on(self, rank: int, done: dict[Task, int], arrived: list[int], at: list[int]) -> bool:
        """The next task of a rank, if there is one that can begin."""
        if at[rank] == len(self.orders[rank]):
            return False
        kind, chunk, micro_batch = self.orders[rank][at[rank]]
        stage = chunk * self.ranks + rank
        source = stage - {"F": 1, "B": -1, "W": 0}[kind]
        if source != stage and 0 <= source < self.stages:
            if (kind, source, micro_batch) not in done:
                return False
            self.free[rank] = max(self.free[rank], done[kind, source, micro_batch]) + self.hop
            arrived[source % self.ranks] = max(arrived[source % self.ranks], self.free[rank])
        self.free[rank] += self.costs[rank][kind]
        done[kind, stage, micro_batch] = self.free[rank]
        at[rank] += 1
        return True


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_orders_have_the_bubbles_of_their_papers(ranks: int, rounds: int) -> None:
    """With even stages and free messages: the bubble is (p - 1)(F + B), with ZB-H1 (p - 1)(F + B - W)."""
    p, m = ranks, ranks * rounds

    def takes(order: Callable[[int], list[Task]], chunks: int = 1, **costs: int) -> int:
        return max(Pipeline([order(rank) for rank in range(p)], [costs] * p, chunks=chunks).iterate())

    assert takes(lambda rank: one_f_one_b(p, rank, m), F=3, B=6) == (m + p - 1) * (3 + 6)
    assert takes(lambda rank: zero_bubble(p, rank, m), F=3, B=3, W=3) == 9 * m + (p - 1) * (3 + 3 - 3)
    assert takes(lambda rank: interleaved(p, rank, m, 2), chunks=2, F=3, B=6) == (2 * m + p - 1) * (3 + 6)
    assert takes(lambda rank: breadth_first(m, 2), chunks=2, F=3, B=6) == (2 * m + p - 1) * (3 + 6)


def pipeline_of(job: str, world: int, hop: int) -> Pipeline:
    """A pipeline of the job, or one of its two, with the times that the program names."""
    ranks = world // 2 if job == "two_dimensional" else world
    thirds = [ns(10 + 4 * (rank % 3)) for rank in range(ranks)]
    halves = [ns(8 + 3 * (rank % 2)) for rank in range(ranks)]
    whole, chunked = ([{"F": each, "B": 2 * each} for each in forward] for forward in (thirds, halves))
    match job:
        case "zero_bubble":
            split = [dict.fromkeys("FBW", each) for each in thirds]
            return Pipeline([zero_bubble(ranks, rank, 8) for rank in range(ranks)], split, hop)
        case "interleaved":
            return Pipeline([interleaved(ranks, rank, ranks, 2) for rank in range(ranks)], chunked, hop, chunks=2)
        case "breadth_first":
            return Pipeline([breadth_first(4, 2)] * ranks, chunked, hop, chunks=2)
        case _:
            return Pipeline([one_f_one_b(ranks, rank, 4) for rank in range(ranks)], whole, hop)


@pytest.mark.parametrize("network", [FREE, LINKED], ids=["free", "linked"])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("job", PIPELINES)
def test_pipelines_equal_the_recurrence(job: str, world: int, network: Network) -> None:
    pipeline = pipeline_of(job, world, hop=LATENCY + 64 if network is LINKED else 0)
    gradients = all_reduce_ns(2, network) if job == "two_dimensional" else 0
    ends = []
    for _ in range(ITERATIONS):
        pipeline.free = [end + gradients for end in pipeline.iterate()]
        ends.append(max(pipeline.free))
    assert iterations(recorded(job, world), network) == [b - a for a, b in pairwise(ends)]


# -- what if -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", ["data_parallel", "pipeline"])
def test_a_slow_rank_costs_what_it_costs_the_job_that_has_one(job: str) -> None:
    variant = WhatIf(name="slow", slow=Slow(ranks=(1,), factor=1.4))
    slowed = iterations(recorded(job, 4, "1", "1.4"), LINKED)
    assert iterations(recorded(job, 4), LINKED, variant) == [sum(slowed) // len(slowed)]
    assert max(slowed) > max(iterations(recorded(job, 4), LINKED))
