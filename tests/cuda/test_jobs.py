"""The jobs on a real GPU: losses and peaks of memory of real NCCL ranks that share it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu_runs import Run, Runs
from prism.scenario import Calibrate, Devices, Network, Scenario
from tests.running import capture, predict, references, scenario

JOBS = Path(__file__).parents[1] / "jobs"
ITERATIONS = 3
LIMIT_S = 180.0
CASES = [
    (job, world) for world in (2, 4, 8) for job in ("ddp", "fsdp2", "tp", "pp", "moe") if (job, world) != ("pp", 8)
]
BUCKETS = {"ddp"}
"""Jobs whose real peaks differ from run to run, by when a bucket of gradients is given back."""

pytestmark = pytest.mark.gpu


def real(job: str, world: int, iterations: int, keep: Path) -> Run:
    """One run under unmodified NCCL."""
    runs = Runs(keep, LIMIT_S)
    try:
        return runs.real(job, world, iterations)
    finally:
        runs.end()


def on_gpu(job: str, world: int, iterations: int = ITERATIONS, **blocks: object) -> Scenario:
    """A scenario on the GPU, under NCCL's rules."""
    given = {"devices": Devices(kind="cuda"), "semantics": "auto", **blocks}
    return scenario(JOBS / f"job_{job}.py", (str(iterations),), world, **given)


@pytest.mark.parametrize(("job", "world"), CASES)
def test_losses_and_peaks_are_those_of_nccl(job: str, world: int, tmp_path: Path) -> None:
    run = capture(on_gpu(job, world), tmp_path / "out")
    assert run.result.diagnosis is None
    assert run.result.device == "cuda"
    theirs = real(job, world, ITERATIONS, tmp_path)
    assert theirs.failed == ""
    for ours in references(run.output):
        other = theirs.reports[ours["rank"]]
        assert ours["loss"] == pytest.approx(other["loss"], rel=1e-3), f"rank {ours['rank']}"
        told = run.result.ranks[ours["rank"]]
        assert (told.peak_bytes, told.reserved_bytes) == (ours["max_allocated"], ours["max_reserved"])
        if job not in BUCKETS:
            assert told.peak_bytes == pytest.approx(other["max_allocated"], rel=1e-4), f"rank {ours['rank']}"


def test_two_slots_or_one_give_the_same_losses(tmp_path: Path) -> None:
    runs = [
        capture(on_gpu("tp", 2, devices=Devices(kind="cuda", slots=slots)), tmp_path / str(slots)) for slots in (1, 2)
    ]
    assert len({str([one["loss"] for one in references(run.output)]) for run in runs}) == 1


def test_a_cap_is_hit_by_the_ranks_that_need_more(tmp_path: Path) -> None:
    run = capture(on_gpu("pp", 2, devices=Devices(kind="cuda", memory=2200 << 20)), tmp_path / "out")
    assert run.result.diagnosis is not None
    assert run.result.diagnosis.kind == "oom"
    (failed,) = [rank for rank in run.result.diagnosis.ranks if rank.traceback]
    assert failed.rank == 0
    assert failed.snapshot is not None
    assert Path(failed.snapshot).stat().st_size > 0


def test_a_prediction_of_one_rank_is_what_it_takes(tmp_path: Path) -> None:
    blocks = {"calibrate": Calibrate(warmup=2), "network": Network(model="none")}
    result = predict(on_gpu("ddp", 1, 8, **blocks), tmp_path / "out").result
    plain = real("ddp", 1, 8, tmp_path).reports[0]["ms"][2:]
    assert result.iteration_ns_median is not None
    assert result.iteration_ns_median / 1e6 == pytest.approx(sorted(plain)[len(plain) // 2], rel=0.05)
    assert result.calibration is not None
    assert [one.rank for one in result.calibration.clocks] == [0]
