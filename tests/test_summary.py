"""The summary of a run, as a person reads it."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from prism.folder import Folder
from prism.result import Result, StalledRank, WhatIfResult
from prism.summary import print_summary


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
