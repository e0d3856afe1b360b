"""When the kernels of a job begin and how long they last, in runs that benchmarks/programs/profiled.py has told of.

A kernel is known by its name and by how many of that name came before it in its iteration: what runs on several streams
comes in another order now and then, and copies that only one side makes move nothing. NCCL's kernels and those that
stand for them have other names and one role, so they are counted together, and told apart from the program's.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

COMMUNICATION = "communication"
COMMUNICATES = ("ncclDevKernel", "::ring_kernel", "::message_kernel")
"""What the names of such kernels have in them: NCCL's, and the engine's two."""

Key = tuple[str, int]
Iteration = Sequence[Sequence[Any]]
"""Name, start and duration (us) of each kernel, by starts."""


def compared(plain: Sequence[Sequence[Iteration]], ours: Sequence[Iteration], warmup: int) -> dict[str, Any]:
    """What share of the kernels that all iterations of the plain runs have lie, on the median, inside their spread.

    `ms`: what an iteration takes on either side, on the median. `others`: how many kernels there are in an iteration of
    one side alone, by name, at most.
    """
    theirs = [_by_key(one) for run in plain for one in run[warmup:]]
    mine = [_by_key(one) for one in ours[warmup:]]
    always = [key for key in theirs[0] if all(key in one for one in theirs)]
    of_program = [key for key in always if key[0] != COMMUNICATION]
    of_communication = [key for key in always if key[0] == COMMUNICATION]
    return {
        "program": _inside(of_program, theirs, mine),
        COMMUNICATION: _inside(of_communication, theirs, mine),
        "ms": {"plain": _spent(theirs), "ours": _spent(mine)},
        "others": {"plain": _only(theirs, mine), "ours": _only(mine, theirs)},
    }


def _by_key(iteration: Iteration) -> dict[Key, tuple[float, float]]:
    seen: Counter[str] = Counter()
    found = {}
    for name, start, duration in iteration:
        role = COMMUNICATION if any(part in name for part in COMMUNICATES) else name
        found[role, seen[role]] = (start, duration)
        seen[role] += 1
    return found


def _inside(
    keys: Sequence[Key], theirs: Sequence[Mapping[Key, Any]], mine: Sequence[Mapping[Key, Any]]
) -> dict[str, float]:
    """How many kernels they are, and of how many start and duration are inside; one that is not there is outside."""
    row: dict[str, float] = {"kernels": len(keys)}
    for place, what in enumerate(("starts", "durations")):
        within = 0
        for key in keys:
            known = [one[key][place] for one in theirs]
            found = [one[key][place] for one in mine if key in one]
            within += bool(found) and min(known) <= statistics.median(found) <= max(known)
        row[what] = within / max(len(keys), 1)
    return row


def _spent(iterations: Sequence[Mapping[Key, Any]]) -> dict[str, float]:
    """The ms of kernels of the program and of communication, and from the first one's start to the last one's end."""
    rows = []
    for one in iterations:
        communication = sum(duration for (name, _), (_, duration) in one.items() if name == COMMUNICATION)
        program = sum(duration for _, duration in one.values()) - communication
        span = max(start + duration for start, duration in one.values()) - min(start for start, _ in one.values())
        rows.append((program, communication, span))
    middle = (round(statistics.median(column) / 1e3, 3) for column in zip(*rows, strict=True))
    return dict(zip(("program", COMMUNICATION, "span"), middle, strict=True))


def _only(these: Sequence[Mapping[Key, Any]], others: Sequence[Mapping[Key, Any]]) -> dict[str, int]:
    """How many more of a name are in an iteration of these than in any of the others."""
    most, known = (_most(side) for side in (these, others))
    return {name: count - known[name] for name, count in sorted(most.items()) if count > known[name]}


def _most(iterations: Sequence[Mapping[Key, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in iterations:
        found |= Counter(name for name, _ in one)
    return found
