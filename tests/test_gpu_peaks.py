"""What the table of peaks says of a capture beside real runs."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu_peaks import Case, rows, table
from benchmarks.gpu_runs import Run

CASE = Case.of("fsdp2:2")


def test_a_case_has_five_real_runs_or_as_many_as_it_says() -> None:
    assert [Case.of(word) for word in ("tp:8:1", "tp:2")] == [("tp", 8, 1), ("tp", 2, 5)]


def report(allocated: int, reserved: int = 10, loss: float = 1.0) -> dict[str, Any]:
    return {"max_allocated": allocated, "max_reserved": reserved, "loss": [loss]}


def run(*reports: dict[str, Any]) -> Run:
    return Run(dict(enumerate(reports)), [])


def test_a_peak_is_inside_if_any_real_run_of_its_rank_showed_it() -> None:
    real = [run(report(1000), report(2000)), run(report(3000), report(2000))]
    first, second = rows(CASE, run(report(3000), report(1000)), real)
    assert (first["max_allocated_in"], second["max_allocated_in"]) == (True, False)
    assert (first["real_max_allocated"], second["real_max_allocated"]) == ([1000, 3000], [2000])


def test_a_hundredth_of_a_percent_is_the_same() -> None:
    real = [run(report(100_000))]
    found = [next(rows(CASE, run(report(peak)), real)) for peak in (100_010, 100_011)]
    assert [row["max_allocated_in"] for row in found] == [True, False]


def test_a_case_is_one_line_and_one_more_for_each_peak_outside() -> None:
    real = [run(report(1000, loss=1.0), report(2000)), run(report(3000, loss=1.1), report(2000))]
    head, outside, failed = table(CASE, list(rows(CASE, run(report(3000), report(1000)), real)), ["exit 1"])
    assert head.split() == ["fsdp2", "2", "2", "1", "of", "2", "2", "of", "2", "2", "9.1e-02"]
    assert outside.split() == ["rank", "1:", "max_allocated", "1,000,", "in", "real", "runs", "2,000"]
    assert failed.endswith("exit 1")


def test_a_rank_that_a_capture_lost_is_not_inside() -> None:
    (line,) = table(CASE, list(rows(CASE, run(report(1000)), [run(report(1000))])), [])
    assert "1 of 2" in line
