"""The summary of a run, as a person reads it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from prism.command.summary import print_summary
from prism.core.diagnosis import Diagnosis, RankState
from prism.folder import Folder
from prism.result import (
    CalibrationResult,
    EmulatedRank,
    EmulationResult,
    FoldResult,
    PrefetchResult,
    RankResult,
    Result,
    Spread,
    StalledRank,
    WhatIfResult,
)


def printed(folder: Path, **found: Any) -> str:
    """The summary of a good run."""
    text = io.StringIO()
    result = Result(scenario="job", status="ok", world_size=64, **found)
    print_summary(result, Folder(folder), Console(file=text, width=120))
    return text.getvalue()


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (
            {"spread": Spread(0.0081, 0.03, 0.12), "outliers": 3},
            "calibrated 64 of 64 ranks, 2,944 segments x 6 iterations, spread 0.8 % (median), 3 outliers",
        ),
        (
            {"measured_ranks": [3, 40], "samples": 4 * 2944 + 1472, "difference": 0.012, "outliers": 1},
            "calibrated 2 of 64 ranks, 2,944 segments x 4.5 iterations, ranks that share differ by 1.2 %, 1 outlier",
        ),
        ({"samples": 2944}, "calibrated 64 of 64 ranks, 2,944 segments, each measured in one iteration, 0 outliers"),
        ({"segments": 0, "samples": 0}, "calibrated 64 of 64 ranks, no iteration after the warm-up"),
    ],
)
def test_calibration_says_how_much_was_measured_and_how_sure_it_is(
    found: dict[str, Any], line: str, tmp_path: Path
) -> None:
    whole = {"measured_ranks": list(range(64)), "segments": 2944, "samples": 6 * 2944, "outliers": 0}
    calibration = CalibrationResult(**{**whole, "spread": None, "difference": None, **found})
    assert f"  {line}\n" in printed(tmp_path, calibration=calibration)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ({}, "folded     2 ranks ran for all; fold.verify runs some of the others, to see whether they do the same"),
        (
            {"verified": [7, 9], "compare": "payloads", "seed": 3},
            "folded     2 ranks ran for all; 7, 9 (seed 3) did the same, and put in the same bytes",
        ),
        (
            {"verified": [9], "compare": "steps", "seed": 0},
            "folded     2 ranks ran for all; 9 (seed 0) did the same, bytes not compared",
        ),
    ],
)
def test_a_folded_world_says_who_ran(found: dict[str, Any], line: str, tmp_path: Path) -> None:
    assert f"  {line}\n" in printed(tmp_path, fold=FoldResult(ran=[0, 1], **found))


def test_without_a_calibration_it_says_nothing_of_it(tmp_path: Path) -> None:
    assert "calibrated" not in printed(tmp_path)


def test_ranks_that_were_cut_are_told(tmp_path: Path) -> None:
    ranks = [RankResult(rank=rank, cut=True, iterations=6) for rank in range(2)]
    told = "  cut        after 6 iterations (capture.iterations): what the program does then did not run\n"
    assert told in printed(tmp_path, ranks=ranks)
    assert told not in printed(tmp_path, ranks=[RankResult(rank=0, iterations=6)])


def failed(folder: Path, **state: Any) -> str:
    """The summary of a run that rank 1 failed."""
    text = io.StringIO()
    rank = RankState(rank=1, **state)
    found = Diagnosis(
        kind="rank_failed", summary=f"rank 1 {rank.state}", ranks=[RankState(rank=0, state="waiting"), rank]
    )
    result = Result(scenario="job", status="failed", world_size=2, diagnosis=found)
    print_summary(result, Folder(folder), Console(file=text, width=120))
    return text.getvalue()


def test_a_rank_that_left_without_an_exception_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    (tmp_path / "ranks" / "1.log").write_text("usage: train.py\ntrain.py: error: unrecognized arguments: --stepz\n")
    told = failed(tmp_path, state="ended with exit code 2")
    assert "rank 1 printed last" in told
    assert "  train.py: error: unrecognized arguments: --stepz\n" in told
    assert "printed last" not in failed(tmp_path, state="raised E", traceback="E")
    assert "printed last" not in failed(tmp_path / "nowhere", state="ended with exit code 2")


@pytest.mark.parametrize(
    ("traceback", "hint"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", "it asks for a GPU: `devices: {present_as: H100}`"),
        (
            "torch.AcceleratorError: CUDA error: invalid device ordinal",
            'ranks share the GPUs here: `program: {env: {LOCAL_RANK: "0"}}`',
        ),
        (
            "ModuleNotFoundError: No module named 'transformers.models'",
            "transformers.models is not installed where PRISM",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'data/tokens.bin'",
            "data/tokens.bin is looked for in",
        ),
    ],
)
def test_failures_that_are_known_have_a_hint(traceback: str, hint: str, tmp_path: Path) -> None:
    assert f"hint: {hint}" in failed(tmp_path, state="raised", traceback=traceback)
    assert "hint" not in failed(tmp_path, state="raised", traceback="ValueError: 3")


def emulated(*starved: float | None) -> EmulationResult:
    return EmulationResult(
        sandbox=list(range(len(starved))),
        ranks=[EmulatedRank(rank, [41_000_000], starved=share) for rank, share in enumerate(starved)],
        error_vs_replay=1.5432,
        contribution="left",
        groups=1,
        ops=2,
        prefetch=PrefetchResult(hits=2, misses=0, stalls=0),
    )


def test_beside_what_an_emulation_is_off_by_stands_how_long_it_waited_for_a_core(tmp_path: Path) -> None:
    told = printed(tmp_path, emulation=emulated(0.02, 0.61, None))
    line = "by wall time, in which rank 1 waited for a core in 61.0 % of the time in which it could compute"
    assert "+154.32% against replay" in told
    assert line in told
    assert "waited for a core" not in printed(tmp_path, emulation=emulated(None))


def test_variants_say_their_percentiles_and_who_stalls(tmp_path: Path) -> None:
    percentiles = {"p5": 90_000, "p50": 110_000, "p99": 150_000}
    result = Result(
        scenario="job",
        status="ok",
        world_size=4,
        what_if=[
            WhatIfResult(name="plain", iteration_ns_median=130_000, slowdown=1.3),
            WhatIfResult(name="drawn", iteration_ns_median=110_000, slowdown=1.1, percentiles=percentiles),
            WhatIfResult(
                name="lost",
                iteration_ns_median=None,
                slowdown=None,
                stalled=[StalledRank(rank=rank, since_ns=9_000 + rank) for rank in (0, 2, 3)],
            ),
        ],
    )
    text = io.StringIO()
    print_summary(result, Folder(tmp_path), Console(file=text, width=120))
    rows = [line.split() for line in text.getvalue().splitlines()]
    assert ["plain", "130.0", "µs", "1.300x"] in rows
    assert ["drawn", "110.0", "µs", "1.100x", "p5", "90.0", "µs,", "p99", "150.0", "µs"] in rows
    assert ["lost", "-", "-", "stalls", "from", "9.00", "µs:", "ranks", "0,", "2-3"] in rows
