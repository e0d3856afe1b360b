"""Peaks and losses of a capture beside those of real runs: each rank's, and one line for each case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.gpu_runs import Run

NEAR = 1e-4
"""Of a peak: so far from a real one it counts as the same."""
PEAKS = ("max_allocated", "max_reserved")
HEAD = f"{'job':6}{'world':>6}{'real runs':>10}{'allocated':>12}{'reserved':>12}{'values':>8}{'loss apart':>12}"


class Case(NamedTuple):
    """A job, on how many ranks, and how often it runs for real."""

    job: str
    world: int
    runs: int = 5

    @classmethod
    def of(cls, word: str) -> Case:
        """From JOB:WORLD or JOB:WORLD:RUNS."""
        job, *numbers = word.split(":")
        return cls(job, *map(int, numbers))


def rows(case: Case, ours: Run, theirs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Of each rank that was captured its peaks, all that real runs showed, and how far losses are apart at most."""
    for rank in sorted(ours.reports):
        report = ours.reports[rank]
        others = [run.reports[rank] for run in theirs if rank in run.reports]
        row: dict[str, Any] = {"job": case.job, "world": case.world, "rank": rank}
        row |= {"told": report.get("told"), "real": len(others)}
        for key in PEAKS:
            known = sorted({one[key] for one in others})
            row[key], row[f"real_{key}"] = report[key], known
            row[f"{key}_in"] = any(abs(report[key] - one) <= NEAR * one for one in known)
        pairs = [pair for one in others for pair in zip(report["loss"], one["loss"], strict=False)]
        row["loss_apart"] = max((abs(a - b) / abs(b) for a, b in pairs), default=None)
        yield row


def table(case: Case, found: Sequence[dict[str, Any]], failed: Sequence[str]) -> Iterator[str]:
    """A case in one line: of how many ranks the peaks are among the real ones; then the ranks whose are not.

    `values`: how many different max_allocated one rank showed in real runs, at most.
    """
    inside = [f"{sum(row[f'{key}_in'] for row in found)} of {case.world}" for key in PEAKS]
    real = min((row["real"] for row in found), default=0)
    values = max((len(row["real_max_allocated"]) for row in found), default=0)
    apart = max((row["loss_apart"] for row in found if row["loss_apart"] is not None), default=None)
    loss = "-" if apart is None else f"{apart:.1e}"
    yield f"{case.job:6}{case.world:6}{real:10}{inside[0]:>12}{inside[1]:>12}{values:8}{loss:>12}"
    for row in found:
        for key in PEAKS:
            if row["real"] and not row[f"{key}_in"]:
                known = ", ".join(f"{one:,}" for one in row[f"real_{key}"])
                yield f"    rank {row['rank']}: {key} {row[key]:,}, in real runs {known}"
    for reason in failed:
        yield f"    failed: {reason[-200:]}"
