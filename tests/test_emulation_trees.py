"""Hybrid emulation with all_reduces along two trees: the sandbox ranks' results, and what they move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prism.core.graph import NodeKind, OpKind
from prism.core.timeline.network import op_traffic
from prism.scenario import Calibrate, Emulate, Network
from tests.running import Run, emulate, references, scenario

HERE = Path(__file__).parent
STAGES = ("capture", "calibrate", "replay", "emulate")
WORLD = 4


def run_job(program: str, out: Path, sandbox: tuple[int, ...], contribution: Any, network: Network) -> Run:
    given = scenario(
        HERE / program,
        ("4",) if program.startswith("jobs/") else (),
        WORLD,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=sandbox, contribution=contribution),
        network=network,
    )
    return emulate(given, out)


def losses(output: list[str]) -> dict[int, list[float]]:
    return {report["rank"]: report["loss"] for report in references(output)}


def captured(run: Run, sandbox: tuple[int, ...]) -> dict[int, list[float]]:
    return losses([(run.folder / "ranks" / f"{rank}.log").read_text() for rank in sandbox])


def moved_along_trees(run: Run, rank: int) -> int:
    """The bytes that a rank sends, if every member were real; the world is a chain on its one node."""
    graph = run.graph
    assert graph is not None
    lane = graph.nodes[graph.lane_ptr[rank] : graph.lane_ptr[rank + 1]]
    ops = lane["ref"][lane["kind"] == NodeKind.POST]
    reduces = graph.ops["kind"][ops] == OpKind.ALL_REDUCE
    neighbours = 1 if rank in (0, WORLD - 1) else 2
    along = neighbours * int(graph.ops["nbytes"][ops[reduces]].sum())  # half of it in each tree
    return along + int(op_traffic(graph, 8).nbytes[ops[~reduces]].sum())


@pytest.mark.parametrize("sandbox", [(0,), (1, 2)])
def test_exact_contributions_give_the_captures_bits(sandbox: tuple[int, ...], tmp_path: Path) -> None:
    run = run_job("jobs/job_ddp.py", tmp_path / "out", sandbox, "exact", Network(algorithm="tree"))
    assert run.result.diagnosis is None
    assert losses(run.output) == captured(run, sandbox)


def test_sandbox_ranks_move_what_they_would_among_real_ranks(tmp_path: Path) -> None:
    run = run_job("programs/symmetric.py", tmp_path / "out", (1, 3), "zeros", Network(algorithm="tree"))
    assert run.result.emulation is not None
    for rank in run.result.emulation.ranks:
        assert rank.sent_bytes == rank.received_bytes == moved_along_trees(run, rank.rank)


@pytest.mark.parametrize("algorithm", ["tree", "auto"])
def test_what_one_branch_carries_gives_the_captures_losses(algorithm: Any, tmp_path: Path) -> None:
    run = run_job("jobs/job_tp.py", tmp_path / "out", (1,), "left", Network(algorithm=algorithm))
    assert run.result.diagnosis is None
    found, expected = losses(run.output), captured(run, (1,))
    assert found[1] == pytest.approx(expected[1], rel=1e-6, abs=0)
