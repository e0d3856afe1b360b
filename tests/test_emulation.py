"""Hybrid emulation: sandbox ranks run the real program, and get from virtual ranks what the real ones gave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prism.core.graph import NodeKind
from prism.core.timeline.network import op_traffic
from prism.scenario import Calibrate, Emulate
from tests.running import Run, emulate, references, scenario

JOBS = Path(__file__).with_name("jobs")
PROGRAMS = Path(__file__).with_name("programs")
ITERATIONS = "4"
STAGES = ("capture", "calibrate", "replay", "emulate")
KINDS = ("ddp", "fsdp2", "tp", "pp", "moe")


def run_job(kind: str, world: int, out: Path, sandbox: tuple[int, ...], contribution: Any) -> Run:
    """Capture, calibrate, replay and emulate a job."""
    given = scenario(
        JOBS / f"job_{kind}.py",
        (ITERATIONS,),
        world,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=sandbox, contribution=contribution),
    )
    return emulate(given, out)


def losses(output: list[str]) -> dict[int, list[float]]:
    """What each rank printed as its losses."""
    return {report["rank"]: report["loss"] for report in references(output)}


def moved_in_a_full_ring(run: Run, rank: int) -> tuple[int, int]:
    """The steps and bytes of all collectives of a rank, if every member of them were real."""
    graph = run.graph
    assert graph is not None
    lane = graph.nodes[graph.lane_ptr[rank] : graph.lane_ptr[rank + 1]]
    ops = lane["ref"][lane["kind"] == NodeKind.POST]
    traffic = op_traffic(graph, 8)
    return int(traffic.steps[ops].sum()), int(traffic.nbytes[ops].sum())


def captured_losses(run: Run, sandbox: tuple[int, ...]) -> dict[int, list[float]]:
    """The losses of the sandbox ranks when all ranks were captured."""
    return losses([(run.folder / "ranks" / f"{rank}.log").read_text() for rank in sandbox])


@pytest.mark.parametrize("sandbox", [(0,), (2, 3), (0, 2, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_exact_contributions_give_the_captures_bits(kind: str, sandbox: tuple[int, ...], tmp_path: Path) -> None:
    run = run_job(kind, 4, tmp_path / "out", sandbox, "exact")
    assert run.result.diagnosis is None
    assert losses(run.output) == captured_losses(run, sandbox)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_left_rank_carries_gives_the_captures_losses(kind: str, tmp_path: Path) -> None:
    run = run_job(kind, 4, tmp_path / "out", (1,), "left")
    assert run.result.diagnosis is None
    found, expected = losses(run.output), captured_losses(run, (1,))
    assert found[1] == pytest.approx(expected[1], rel=1e-6, abs=0)


def test_the_result_tells_what_the_sandbox_ranks_did(tmp_path: Path) -> None:
    run = run_job("ddp", 4, tmp_path / "out", (1, 3), "left")
    emulation = run.result.emulation
    assert emulation is not None
    assert emulation.sandbox == [1, 3]
    assert [rank.rank for rank in emulation.ranks] == [1, 3]
    assert all(len(rank.iteration_ns) == 3 for rank in emulation.ranks)
    assert emulation.error_vs_replay is not None
    assert all(rank.starved is None or 0 <= rank.starved < 1 for rank in emulation.ranks)
    assert emulation.groups == 1
    assert [rank.peak_bytes for rank in emulation.ranks] == [run.result.ranks[r].peak_bytes for r in (1, 3)]
    assert run.result.stages["emulate"].status == "ok"


@pytest.mark.parametrize("sandbox", [(0,), (1, 2), (0, 2, 5)])
def test_sandbox_ranks_move_what_they_would_among_real_ranks(sandbox: tuple[int, ...], tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "symmetric.py",
        world=6,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=sandbox),
    )
    run = emulate(given, tmp_path / "out")
    emulation = run.result.emulation
    assert emulation is not None
    for rank in emulation.ranks:
        assert (rank.steps, rank.sent_bytes) == moved_in_a_full_ring(run, rank.rank)
        assert rank.received_bytes == rank.sent_bytes
