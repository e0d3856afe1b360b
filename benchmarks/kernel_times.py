"""When the kernels of a job begin and how long they last, in runs that benchmarks/programs/profiled.py has told of."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def compared(plain: Sequence[Any], ours: Any, warmup: int) -> dict[str, Any]:
    """How many kernels of the program, not of its communication, begin and last as in the plain runs (us)."""
    theirs = [_of_program(one) for run in plain for one in run[warmup:]]
    mine = [_of_program(one) for one in ours[warmup:]]
    count = min(len(one) for one in (*theirs, *mine))
    inside = {}
    for place, what in ((1, "starts"), (2, "durations")):
        within = 0
        for number in range(count):
            known = sorted(one[number][place] for one in theirs)
            found = statistics.median(one[number][place] for one in mine)
            within += known[0] <= found <= known[-1]
        inside[what] = within / max(count, 1)
    return {"kernels": count, "of": sorted({len(one) for one in (*theirs, *mine)}), **inside}


def _of_program(kernels: Sequence[Any]) -> list[Any]:
    return [one for one in kernels if "nccl" not in one[0].lower() and "pruned" not in one[0].lower()]
