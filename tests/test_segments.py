"""Segments of a calibration beside those of a plain run: the same ones, and how far apart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu_ranks import environments
from benchmarks.segments import calibrated, compared
from prism.core.graph import OpKind
from tests.core.jobs import Job
from tests.running import predict, scenario

ROOT = Path(__file__).parents[1]


def test_a_segment_lasts_from_one_post_or_mark_to_the_next() -> None:
    job = Job(1)
    for _ in range(3):
        job.compute(0, 1_000_000)
        op = job.post(0, OpKind.ALL_REDUCE, 8)
        job.compute(0, 2_000_000)
        job.wait(0, op)
        job.compute(0, 4_000_000)
        job.mark(0)
    job.compute(0, 8_000_000)
    assert calibrated(job.graph(), 0) == [[1.0, 6.0], [1.0, 6.0]]


def test_errors_are_those_of_medians() -> None:
    errors = compared([[9, 9], [1.1, 10], [1.1, 10], [50, 10]], [[0, 0], [1.0, 10], [1.0, 10]], warmup=1)
    assert errors == pytest.approx((2, 0.05, 0.1 / 11, 0.1 / 11))


def test_what_is_not_the_same_is_not_compared() -> None:
    with pytest.raises(ValueError, match=r"\[1, 2\] segments"):
        compared([[1.0]], [[1.0, 2.0]], warmup=0)


def test_a_plain_run_has_the_segments_of_a_calibration(tmp_path: Path) -> None:
    job = ROOT / "tests" / "jobs" / "job_ddp.py"
    words = [sys.executable, ROOT / "benchmarks" / "programs" / "segmented.py", tmp_path / "plain", job, "4"]
    (place,) = environments(1, 1)
    subprocess.run(words, env=place | {"CUDA_VISIBLE_DEVICES": ""}, check=True, capture_output=True, timeout=120)
    plain = json.loads((tmp_path / "plain.0.json").read_text())
    run = predict(scenario(job, ("4",), world=1), tmp_path / "out")
    assert run.graph is not None
    assert compared(calibrated(run.graph, 0), plain["iterations"], warmup=1).segments > 1
    assert len(plain["posting"]["allreduce"]) == 4
