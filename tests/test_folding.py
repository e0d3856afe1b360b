"""Folded worlds: one rank of each class runs, and what comes out is what a run of all ranks gives."""

from __future__ import annotations

import re
from dataclasses import fields
from math import prod
from pathlib import Path

import numpy as np
import pytest

from prism.core.graph import Graph, NodeKind
from prism.errors import ScenarioError
from prism.scenario import STAGES, Calibrate, Fold
from tests.running import Run, capture, emulate, predict, scenario

HERE = Path(__file__).parent
PROGRAMS, ROOT = HERE / "programs", HERE.parent
VIRTUAL_TIME = ROOT / "benchmarks" / "programs" / "virtual_time.py"
QWEN = ROOT / "scenarios" / "workloads" / "qwen_moe.py"


def folded(
    script: Path, args: tuple[str, ...], mesh: dict[str, int], over: tuple[str, ...], out: Path, **more: object
) -> Run:
    """A capture of the representatives; `more` are other keys of fold."""
    return capture(scenario(script, args, prod(mesh.values()), fold=Fold(mesh=mesh, over=over, **more)), out)


def assert_equal(one: Graph, other: Graph) -> None:
    """Column by column, but for durations."""
    for column in fields(Graph):
        mine, theirs = getattr(one, column.name), getattr(other, column.name)
        if column.name == "nodes":
            mine, theirs = (nodes[["kind", "ref", "site"]] for nodes in (mine, theirs))
        assert np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs, column.name


def test_the_graph_is_that_of_all_ranks(tmp_path: Path) -> None:
    mesh, args = {"pp": 2, "dp": 2, "tp": 2}, ("pp=2,dp=2,tp=2",)
    whole = capture(scenario(PROGRAMS / "meshes.py", args, 8), tmp_path / "whole")
    few = folded(PROGRAMS / "meshes.py", args, mesh, ("dp",), tmp_path / "few", verify=2)
    assert few.result.diagnosis is None
    assert whole.graph is not None
    assert few.graph is not None
    assert_equal(few.graph, whole.graph)
    assert [rank.iterations for rank in few.result.ranks] == [rank.iterations for rank in whole.result.ranks]
    assert few.result.fold is not None
    assert (len(few.result.fold.verified), few.result.fold.seed) == (2, 0)
    logs = {int(path.stem) for path in (tmp_path / "few" / "ranks").glob("*.log")}
    assert logs == {*few.result.fold.ran, *few.result.fold.verified}


def test_replicas_with_equal_data_get_the_same_bits(tmp_path: Path) -> None:
    whole = capture(scenario(PROGRAMS / "replicas.py", ("2",), 6), tmp_path / "whole")
    few = folded(PROGRAMS / "replicas.py", ("2",), {"dp": 3, "tp": 2}, ("dp",), tmp_path / "few", verify=4)
    assert few.result.diagnosis is None
    assert whole.output[0] != whole.output[1]
    assert few.output[:2] == whole.output[:2]


def test_one_that_does_otherwise_is_found(tmp_path: Path) -> None:
    mesh = {"dp": 3, "tp": 2}
    few = folded(PROGRAMS / "replicas.py", ("2", "4"), mesh, ("dp",), tmp_path / "out", verify=4)
    assert few.result.diagnosis is not None
    assert few.result.diagnosis.kind == "diverged"
    assert re.fullmatch(
        "rank ([45]) is not like rank ([01]), which stands for it: at step [0-9]+, count of all_reduce at "
        r"replicas\.py:51: rank \2 has 1, rank \1 has 2",
        few.result.diagnosis.summary,
    )


def test_experts_and_replicas_in_virtual_time(tmp_path: Path) -> None:
    """Iterations last as long folded as when all ranks run, if replicas have equal data."""
    mesh = {"pp": 2, "dp": 2, "ep": 2, "tp": 1}
    spelt = ",".join(f"{name}={extent}" for name, extent in mesh.items())
    args = (str(QWEN), "--mesh", spelt, "--sleep", "--micro-batches", "2", "--layers", "1")
    blocks = {"calibrate": Calibrate(warmup=1)}
    whole = predict(scenario(VIRTUAL_TIME, args, 8, **blocks), tmp_path / "whole")
    few = predict(scenario(VIRTUAL_TIME, args, 8, fold=Fold(mesh=mesh, over=("dp", "ep")), **blocks), tmp_path / "few")
    assert few.result.calibration is not None
    assert few.result.calibration.measured_ranks == [0, 4]
    assert few.graph is not None
    assert whole.graph is not None
    assert_equal(few.graph, whole.graph)
    assert few.result.iteration_ns == whole.result.iteration_ns
    later = [_after_the_first_mark(graph) for graph in (few.graph, whole.graph)]
    assert np.array_equal(*later)


def test_hybrid_shards(tmp_path: Path) -> None:
    script, mesh = PROGRAMS / "hybrid_shards.py", {"replicate": 2, "shard": 2}
    whole = capture(scenario(script, ("2,2",), 4), tmp_path / "whole")
    assert whole.graph is not None
    for over in (("replicate",), ("replicate", "shard")):
        few = folded(script, ("2,2",), mesh, over, tmp_path / "-".join(over))
        assert few.graph is not None, few.result.diagnosis
        assert_equal(few.graph, whole.graph)
        assert over == ("replicate", "shard") or few.output[0] == whole.output[0]


def test_a_mesh_that_groups_do_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        folded(PROGRAMS / "hybrid_shards.py", ("2,2",), {"dp": 4}, ("dp",), tmp_path / "out")
    assert "scenario: $.fold: group '3' (ranks 0, 1) takes a part of dp, whose extent is 4" in str(caught.value)


def test_a_representative_in_the_sandbox(tmp_path: Path) -> None:
    mesh = {"dp": 2, "tp": 2}
    given = scenario(PROGRAMS / "meshes.py", ("dp=2,tp=2",), 4, fold=Fold(mesh=mesh, over=("dp",)), stages=STAGES)
    run = emulate(given, tmp_path / "out")
    assert run.result.diagnosis is None
    assert run.result.emulation is not None
    assert run.result.emulation.sandbox == [0]


def _after_the_first_mark(graph: Graph) -> np.ndarray:
    """The durations of all nodes but those of the first iteration of each rank, in which processes start."""
    first = [
        graph.nodes["duration"][start + np.flatnonzero(graph.nodes["kind"][start:end] == NodeKind.MARK)[0] : end]
        for start, end in zip(graph.lane_ptr[:-1], graph.lane_ptr[1:], strict=True)
    ]
    return np.concatenate(first)
