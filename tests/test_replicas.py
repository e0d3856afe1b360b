"""More replicas than were captured: what is made of them is what a capture of so many finds, and predicted alike."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from prism.core.graph import Graph, OpKind
from prism.core.what_if.replicas import with_replicas
from prism.errors import ScenarioError
from prism.prediction import Prediction, predict
from prism.scenario import Scenario
from tests.core.canonical import assert_same
from tests.core.jobs import Job, two_dimensional
from tests.running import capture, scenario

JOBS = Path(__file__).with_name("jobs")
MESHES = Path(__file__).with_name("programs") / "meshes.py"
REPLICAS = "replicas: {mesh: {dp: 2, tp: 2}, over: dp, to: 8}"
NETWORKS = [
    "network: {}",
    "network: {topology: {kind: rail, oversubscription: 4}}",
    "network: {topology: {kind: two-tier, pods: 2, oversubscription: 2}}",
]


def captured(script: Path, args: tuple[str, ...], world: int, out: Path) -> Graph:
    run = capture(scenario(script, args, world), out)
    assert run.graph is not None, run.result.diagnosis
    return run.graph


@pytest.mark.parametrize(
    "mesh", [{"dp": 2, "tp": 2}, {"pp": 2, "dp": 2}, {"dp": 2, "pp": 2}, {"pp": 2, "dp": 2, "tp": 2}]
)
def test_it_is_the_captured_graph_of_so_many(mesh: dict[str, int], tmp_path: Path) -> None:
    few, many = (
        captured(MESHES, (",".join(f"{name}={n}" for name, n in given.items()),), prod(given.values()), tmp_path / name)
        for name, given in (("few", mesh), ("many", mesh | {"dp": 4}))
    )
    assert_same(with_replicas(few, mesh, "dp", 4), many)


@pytest.mark.parametrize("kind", ["ddp", "fsdp2", "tp"])
def test_it_is_the_captured_graph_of_a_training_job(kind: str, tmp_path: Path) -> None:
    few, many = (captured(JOBS / f"job_{kind}.py", ("2",), world, tmp_path / f"{world}") for world in (2, 4))
    assert_same(with_replicas(few, {"x": 2}, "x", 4), many)


def predicted(folder: Path, graph: Graph, *lines: str) -> Prediction:
    (folder / "train.py").touch()
    head = f"prism: 1\nname: job\nprogram: {{script: train.py}}\nworld: {{size: {graph.world_size}, ranks_per_node: 4}}"
    file = folder / "job.yaml"
    file.write_text("\n".join([head, "calibrate: {warmup: 1}", *lines]))
    given = Scenario.load(file)
    return predict(graph, given, given.what_if)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "change", ["", ", slow: {ranks: [11], factor: 1.5}", ", slow: {ranks: [3], factor: 2, from: 4ms}"]
)
def test_a_variant_is_predicted_like_the_job_itself(network: str, change: str, tmp_path: Path) -> None:
    few, many = two_dimensional(2, 2, iterations=5), two_dimensional(8, 2, iterations=5)
    (found,) = predicted(tmp_path, few, f"what_if: [{{name: a, {REPLICAS}, {network}{change}}}]").what_if
    (direct,) = predicted(tmp_path, many, f"what_if: [{{name: a, {network}{change}}}]").what_if
    assert found.iteration_ns_median == direct.iteration_ns_median
    base = predicted(tmp_path, few).analysis.iteration_ns
    assert found.slowdown == found.iteration_ns_median / base[0]


def test_a_rank_that_only_the_variant_has_may_fail(tmp_path: Path) -> None:
    few, many = two_dimensional(2, 2, iterations=5), two_dimensional(8, 2, iterations=5)
    fail = "fail: {rank: 15, at: 5ms}"
    (found,) = predicted(tmp_path, few, f"what_if: [{{name: a, {REPLICAS}, {fail}}}]").what_if
    (direct,) = predicted(tmp_path, many, f"what_if: [{{name: a, {fail}}}]").what_if
    assert [(row.rank, row.since_ns, row.op) for row in found.stalled] == [
        (row.rank, row.since_ns, row.op) for row in direct.stalled
    ]
    assert len(found.stalled) == 15


def test_extents_are_swept(tmp_path: Path) -> None:
    lines = "what_if: [{name: a, replicas: {mesh: {dp: 2, tp: 2}, over: dp, to: [2, 4, 8]}}]"
    found = predicted(tmp_path, two_dimensional(2, 2, iterations=5), lines).what_if
    assert [row.name for row in found] == ["a to=2", "a to=4", "a to=8"]
    assert found[0].slowdown == 1
    assert found[0].slowdown < found[1].slowdown < found[2].slowdown


def test_links_between_nodes_matter_if_the_variant_has_several(tmp_path: Path) -> None:
    change = "network: {inter_node: {latency: 1ms}}"
    lines = (f"what_if: [{{name: small, {change}}}, {{name: large, {REPLICAS}, {change}}}]",)
    warnings = predicted(tmp_path, two_dimensional(2, 2, iterations=5), *lines).warnings
    assert [warning.summary.partition(":")[0] for warning in warnings] == ["small"]


def test_a_group_that_cannot_grow_is_named_with_the_key(tmp_path: Path) -> None:
    job = Job(4)
    group = job.group((0, 3), "odd")
    for rank in (0, 3):
        job.post(rank, OpKind.BARRIER, group=group)
    for rank in range(4):
        for _ in range(3):
            job.compute(rank, 1000)
            job.mark(rank)
    with pytest.raises(ScenarioError, match=r"\$\.what_if\[0\]\.replicas: a: group 'odd' \(ranks 0, 3\) takes a part"):
        predicted(tmp_path, job.graph(), f"what_if: [{{name: a, {REPLICAS}}}]")


@pytest.mark.parametrize(
    ("variant", "told"),
    [
        (
            "replicas: {mesh: {dp: 4, tp: 2}, over: dp, to: 8}",
            "replicas.mesh: dp 4 x tp 2 has 8 ranks, expected world.size 4",
        ),
        (
            "replicas: {mesh: {dp: 2, tp: 2}, over: pp, to: 8}",
            "replicas.over: the mesh has no dimension 'pp', choose from dp, tp",
        ),
        (
            "replicas: {mesh: {dp: 1, tp: 4}, over: dp, to: 8}",
            "replicas.over: of one rank along dp nobody can tell what more would do, capture at least 2",
        ),
        (
            "replicas: {mesh: {dp: 2, tp: 2}, over: dp, to: 5}",
            "replicas.to: expected a multiple of 2, the extent of dp, got 5",
        ),
        (
            f"{REPLICAS}, slow: {{ranks: [16], factor: 2}}",
            "slow.ranks[0]: rank 16 does not exist, the variant's world of 16 has ranks 0 to 15",
        ),
        (f"{REPLICAS}, fail: {{rank: 99, at: 1s}}", "fail.rank: rank 99 does not exist, the variant's world of 16 has"),
        (
            f"{REPLICAS}, network: {{topology: {{kind: two-tier, pods: 5}}}}",
            "network.topology.pods: expected 1 to 4, the number of nodes, got 5",
        ),
    ],
)
def test_what_does_not_fit_the_scenario_is_refused(variant: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        predicted(tmp_path, two_dimensional(2, 2), f"what_if: [{{name: a, {variant}}}]")
    assert f"$.what_if[0].{told}" in str(caught.value)
