"""From graph and scenario to predictions: variants in blocks, drawn, by the clock, swept, and with a failed rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prism.core.timeline.analysis import iteration_ends
from prism.core.timeline.network import LinkClass, Network, op_costs
from prism.core.timeline.replay import evaluate, make_plan
from prism.errors import ScenarioError
from prism.prediction import Prediction, predict
from prism.prediction import variants as variants_module
from prism.result import Result, StalledRank, StragglerResult, WhatIfResult
from prism.scenario import Scenario
from tests.core.jobs import MS, data_parallel, expert_parallel, pipeline, two_dimensional

GRAPH = two_dimensional(2, 2, iterations=5)
BASE = """\
prism: 1
name: job
program: {script: train.py}
world: {size: 4, ranks_per_node: 2}
calibrate: {warmup: 1}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    path = tmp_path / "job.yaml"
    path.write_text(BASE)
    return path


def predicted(file: Path, *lines: str, graph=GRAPH) -> Prediction:
    file.write_text(BASE + "\n".join(lines))
    scenario = Scenario.load(file)
    return predict(graph, scenario, scenario.what_if)


def variant(file: Path, text: str, graph=GRAPH) -> WhatIfResult:
    (result,) = predicted(file, f"what_if: [{{name: v, {text}}}]", graph=graph).what_if
    return result


def test_a_variant_that_changes_nothing_is_the_base(file: Path) -> None:
    prediction = predicted(file, "what_if: [{name: same}, {name: plain, speed: {factor: 1}}]")
    for result in prediction.what_if:
        assert result.slowdown == 1
        assert result.percentiles is None
        assert result.stalled == []


def test_speed_is_of_all_ranks(file: Path) -> None:
    free = "network: {model: none}"
    assert variant(file, f"speed: {{factor: 2}}, {free}").iteration_ns_median == 2 * 4 * MS
    assert variant(file, f"slow: {{ranks: [0, 1, 2, 3], factor: 2}}, {free}").iteration_ns_median == 2 * 4 * MS


def test_blocks_of_any_size_give_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "what_if:",
        "  - {name: a, slow: {ranks: [[0], [1, 2]], factor: [1.1, 1.5]}}",
        "  - {name: b, jitter: {sigma: 0.1, draws: 5}}",
    )
    whole = predicted(file, *lines).what_if
    monkeypatch.setattr(variants_module, "BLOCK", 2 * len(GRAPH.nodes))
    assert predicted(file, *lines).what_if == whole
    assert len(whole) == 5


def test_a_sweep_is_the_product_of_its_lists(file: Path) -> None:
    results = predicted(
        file, "what_if: [{name: s, speed: {factor: [1, 2]}, network: {inter_node: {latency: [8us, 80us]}}}]"
    ).what_if
    assert [result.name for result in results] == [
        "s factor=1 latency=8us",
        "s factor=1 latency=80us",
        "s factor=2 latency=8us",
        "s factor=2 latency=80us",
    ]
    assert results[0].slowdown == 1
    for row in (1, 2):
        assert 1 < (results[row].slowdown or 0) < (results[3].slowdown or 0)


def test_jitter_is_drawn_again_from_the_same_seed(file: Path) -> None:
    first = variant(file, "jitter: {sigma: 0.2, seed: 1, draws: 20}")
    assert first == variant(file, "jitter: {sigma: 0.2, seed: 1, draws: 20}")
    assert first != variant(file, "jitter: {sigma: 0.2, seed: 2, draws: 20}")
    assert first.percentiles is not None
    assert list(first.percentiles) == ["p5", "p50", "p95", "p99"]
    assert sorted(first.percentiles.values()) == list(first.percentiles.values())
    assert first.percentiles["p50"] == first.iteration_ns_median
    # Whoever is last decides, so that jitter on average costs time.
    assert (first.slowdown or 0) > 1.05


def test_a_slow_rank_by_the_clock(file: Path) -> None:
    always = variant(file, "slow: {ranks: [1], factor: 1.5}")
    slowed = "slow: {ranks: [1], factor: 1.5"
    assert variant(file, f"{slowed}, from: 0s}}") == always
    assert variant(file, f"{slowed}, from: 1h}}").slowdown == 1
    sometimes = variant(file, f"{slowed}, from: 0ms, until: 1ms, period: 2ms}}")
    assert 1 < (sometimes.slowdown or 0) < (always.slowdown or 0)


def test_a_failed_rank_stalls_the_others(file: Path) -> None:
    result = variant(file, "fail: {rank: 1, at: 500us}")
    assert result.iteration_ns_median is None
    assert result.slowdown is None
    assert result.stalled[0] == StalledRank(rank=0, since_ns=1 * MS, op="all_reduce", group="tp0")
    assert [row.rank for row in result.stalled] == [0, 2, 3]
    assert variant(file, "fail: {rank: 1, at: 1h}").slowdown == 1


def test_a_pipeline_stalls_stage_by_stage(file: Path) -> None:
    result = variant(file, "fail: {rank: 2, at: 0s}", graph=pipeline(4, 2))
    assert [(row.rank, row.op) for row in result.stalled] == [(0, "send_recv"), (1, "send_recv"), (3, "send_recv")]


@pytest.mark.parametrize("graph", [data_parallel(4), pipeline(4, 3), two_dimensional(2, 2)])
@pytest.mark.parametrize("topology", ["{kind: rail}", "{kind: two-tier, pods: 2}"])
def test_switches_with_room_for_all_are_no_slower_than_separate_links(file: Path, graph, topology: str) -> None:
    """Where no two ops of a rank run at one time, as here, only what switches lack could make a difference."""
    prediction = predicted(file, f"network: {{topology: {topology}}}", graph=graph)
    network = Network("alpha-beta", LinkClass(450 * 10**9, 3_000), LinkClass(50 * 10**9, 8_000))
    separate = evaluate(make_plan(graph), graph.nodes["duration"], op_costs(graph, network, 2).total)
    ends = iteration_ends(graph, separate)
    assert prediction.analysis.iteration_ns == np.diff(ends, prepend=0)[1:].tolist()


def test_oversubscription_slows_down_what_crosses_pods(file: Path) -> None:
    slowdowns = [
        result.slowdown or 0
        for result in predicted(
            file,
            "what_if: [{name: o, network: {topology: {kind: two-tier, pods: 2, oversubscription: [1, 4, 16]}}}]",
            graph=expert_parallel(4),
        ).what_if
    ]
    assert slowdowns[0] < slowdowns[1] < slowdowns[2]


TABLE = """\
collective,group_size,link,bytes,time_us
all_reduce,2,intra_node,1048576,500
reduce_scatter,2,inter_node,1048576,100
reduce_scatter,2,inter_node,16777216,1000
"""


def test_measured_costs_and_what_they_lack(file: Path) -> None:
    (file.parent / "costs.csv").write_text(TABLE)
    prediction = predicted(
        file,
        "network: {model: measured, table: costs.csv}",
        "what_if: [{name: far, network: {inter_node: {latency: [9us, 90us]}}}]",
    )
    reduces = GRAPH.ops["kind"] == 0
    took = prediction.timeline.op_end - prediction.timeline.op_start
    assert set(took[reduces].tolist()) == {500_000}
    assert [(warning.kind, warning.summary) for warning in prediction.warnings] == [
        ("extrapolated", "all_gather (inter_node): not in the table of measured costs, the alpha-beta model stands in")
    ]


def test_a_variant_may_be_measured_alone(file: Path) -> None:
    (file.parent / "costs.csv").write_text(TABLE)
    prediction = predicted(file, "what_if: [{name: m, network: {model: measured, table: costs.csv}}]")
    assert (prediction.what_if[0].slowdown or 0) > 1
    assert len(prediction.warnings) == 1


def test_the_result_names_who_made_others_wait(file: Path) -> None:
    result = Result(scenario="job", status="ok", world_size=4)
    predicted(file, "network: {model: none}", graph=expert_parallel(4)).into(result)
    expected = [StragglerResult(rank=0, caused_ns=2 * 4 * 3 * MS)]
    assert result.stragglers == expected, "in 2 iterations, at 4 exchanges, 3 ranks wait for the busy expert"


def test_a_variant_may_change_the_graph_and_all_else_at_once(file: Path) -> None:
    others = "slow: {ranks: [2], factor: 1.5}, network: {inter_node: {bandwidth: 1GB/s}}"
    changed = variant(file, f"micro_batches: {{from: 3, to: 9}}, {others}", graph=pipeline(4, 3))
    assert changed.iteration_ns_median == variant(file, others, graph=pipeline(4, 9)).iteration_ns_median


def test_a_swept_change_is_worth_as_much_as_a_job_of_its_own(file: Path) -> None:
    sweep = "what_if: [{name: m, micro_batches: {from: 4, to: [2, 4, 16]}, speed: {factor: [1, 2]}}]"
    results = predicted(file, sweep, graph=pipeline(4, 4)).what_if
    assert [result.name for result in results[:3]] == ["m to=2 factor=1", "m to=2 factor=2", "m to=4 factor=1"]
    for result, number in zip(results[::2], (2, 4, 16), strict=True):
        job = predicted(file, graph=pipeline(4, number))
        assert result.iteration_ns_median == int(np.median(job.analysis.iteration_ns))


def test_even_routing_is_faster(file: Path) -> None:
    results = predicted(
        file, "what_if: [{name: r, routing: {hottest: [1, 1.6, 3.2]}}]", graph=expert_parallel(4)
    ).what_if
    assert (results[0].slowdown or 2) < 1
    assert results[1].slowdown == 1
    assert (results[2].slowdown or 0) > 1


def test_variants_that_change_the_graph_alike_share_a_plan(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    monkeypatch.setattr(variants_module, "make_plan", lambda graph: planned.append(graph) or make_plan(graph))
    factors = "speed: {factor: [1, 1.1, 1.2, 1.3]}"
    changed = "micro_batches: {from: 3, to: [4, 5]}"
    lines = f"what_if: [{{name: a, {factors}}}, {{name: b, {changed}, {factors}}}, {{name: c, {factors}}}]"
    results = predicted(file, lines, graph=pipeline(4, 3)).what_if
    assert [result.name[0] for result in results] == [*"aaaa", *"bbbbbbbb", *"cccc"]
    assert len(planned) == 2


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        (
            "micro_batches: {from: 4, to: 8}",
            "$.what_if[1].micro_batches: v: no rank sends 4 like messages in an iteration, or a multiple of that; "
            "micro-batches are told by the messages of a pipeline",
        ),
        ("routing: {hottest: 2}", "$.what_if[1].routing: v: no all_to_all is followed by one of its group that"),
        (
            "routing: {hottest: 2, group: ep}",
            "$.what_if[1].routing: v: no group is called 'ep', choose from world, tp0",
        ),
    ],
)
def test_what_the_graph_does_not_allow_is_a_flaw_of_the_scenario(file: Path, text: str, flaw: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        predicted(file, f"what_if: [{{name: u}}, {{name: v, {text}}}]")
    assert str(caught.value).startswith(f"{file}: {flaw}")
    assert caught.value.exit_code == 2
