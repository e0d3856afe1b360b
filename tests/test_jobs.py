"""Training jobs, byte for byte as their users run them: the losses of real gloo, however few ranks run at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from gloo_reference import run_gloo

from prism.core.prismtrace import Trace, encode
from tests.running import Run, capture, references, scenario

JOBS = Path(__file__).with_name("jobs")
ITERATIONS = "4"
KINDS = ("ddp", "fsdp2", "tp", "pp", "moe")


def run_job(kind: str, world: int, slots: int, out: Path) -> Run:
    """Capture a job that is bound to succeed."""
    run = capture(scenario(JOBS / f"job_{kind}.py", (ITERATIONS,), world, slots), out)
    assert run.result.diagnosis is None
    return run


def losses(output: list[str]) -> dict[int, list[float]]:
    """What each rank printed as its losses; only the last rank of a pipeline has any."""
    return {report["rank"]: report["loss"] for report in references(output)}


@pytest.mark.parametrize(
    ("kind", "world"),
    [(kind, world) for world in (2, 4, 8) for kind in KINDS if (kind, world) != ("pp", 8)],
)
def test_losses_equal_gloo(kind: str, world: int, tmp_path: Path) -> None:
    found = losses(run_job(kind, world, 2, tmp_path / "out").output)
    expected = losses(run_gloo(JOBS / f"job_{kind}.py", [ITERATIONS], world))
    assert list(found) == list(expected) == list(range(world))
    for rank in range(world):
        assert found[rank] == pytest.approx(expected[rank], rel=1e-6, abs=0), f"rank {rank}"


@pytest.mark.parametrize("kind", KINDS)
def test_slots_change_neither_losses_nor_graph(kind: str, tmp_path: Path) -> None:
    one, two = (run_job(kind, 4, slots, tmp_path / f"{slots}") for slots in (1, 2))
    assert losses(one.output) == losses(two.output)
    assert one.graph is not None
    assert two.graph is not None
    assert b"".join(encode(Trace(one.graph))) == b"".join(encode(Trace(two.graph)))
