"""Why ranks of a test did not come to their end, as a person reads it in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prism.core.diagnosis import Diagnosis, RankState
from prism.report.units import rank_ranges

LOG_LINES = 40
"""How much of a rank's output is shown."""
MOST_SHOWN = 4
"""How many different tracebacks, and of how many ranks the output; of more the first are enough to begin with."""
ADDRESS = re.compile(r"\b0x[0-9a-f]+")
"""What differs from rank to rank in messages that say the same."""


class RanksFailed(AssertionError):
    """The ranks did not come to their end; the text has the diagnosis, and the output of the ranks it names."""

    def __init__(self, diagnosis: Diagnosis, logs: dict[int, str]) -> None:
        self.diagnosis = diagnosis
        self.logs = logs
        super().__init__("\n".join(_lines(diagnosis, logs)))


RanksFailed.__module__ = "prism.testing"  # where users find it, and what pytest calls it


def unreturned(ranks: list[int]) -> Diagnosis | None:
    """What is told of ranks that ended as if all were well, and left no value; None if there are none."""
    if not ranks:
        return None
    return Diagnosis(
        kind="rank_failed",
        summary=f"{_named(ranks)} ended before {'its' if len(ranks) == 1 else 'their'} function returned",
        ranks=[RankState(rank=rank, state="ended with exit code 0") for rank in ranks],
    )


def _lines(diagnosis: Diagnosis, logs: dict[int, str]) -> Iterator[str]:
    yield f"{diagnosis.kind}: {_first_line(diagnosis.summary)}"  # first: it is all that pytest's last lines show
    if diagnosis.last_common is not None:
        last = diagnosis.last_common
        yield f"  last in common: {last.op}, operation {last.seq} of group {last.group}"
    if diagnosis.cycle:
        yield f"  cycle: ranks {rank_ranges(diagnosis.cycle)} wait for each other"
    for place, ranks in _alike((_place(state), state.rank) for state in diagnosis.ranks):
        yield f"  {_named(ranks)}: {place}"
    yield from _tracebacks(diagnosis)
    yield from _said(diagnosis, logs)


def _place(state: RankState) -> str:
    """Where a rank stands."""
    op = f" in {state.op} on {state.group}" if state.op else ""
    number = f", number {state.seq}" if state.seq is not None else ""
    told = f"{_first_line(state.state)}{op}{number}"
    return told if not state.callsite or told.endswith(f"at {state.callsite}") else f"{told}, at {state.callsite}"


def _tracebacks(diagnosis: Diagnosis) -> Iterator[str]:
    """Each once."""
    texts = {state.rank: state.traceback.rstrip() for state in diagnosis.ranks if state.traceback}
    different = _alike((ADDRESS.sub("0x", text), rank) for rank, text in texts.items())
    for _, ranks in different[:MOST_SHOWN]:
        yield f"{_named(ranks)}:"
        yield texts[ranks[0]]
    if len(different) > MOST_SHOWN:
        yield f"and {len(different) - MOST_SHOWN} more tracebacks, in .diagnosis.ranks"


def _said(diagnosis: Diagnosis, logs: dict[int, str]) -> Iterator[str]:
    """The end of what the ranks printed, where that is more than their traceback."""
    raised = {state.rank: (state.traceback or "").rstrip() for state in diagnosis.ranks}
    texts = {rank: text.replace(raised.get(rank) or "\0", "").rstrip() for rank, text in logs.items()}
    talkers = sorted(rank for rank, text in texts.items() if text.strip())
    talkers.sort(key=lambda rank: not raised.get(rank))  # those that raised first
    for rank in talkers[:MOST_SHOWN]:
        yield f"output of rank {rank}:"
        yield from (f"  {line}" for line in texts[rank].splitlines()[-LOG_LINES:])
    if len(talkers) > MOST_SHOWN:
        yield f"and output of {len(talkers) - MOST_SHOWN} more ranks, in .logs"


def _alike(told: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """Ranks of which the same is told, in the order in which it is told first."""
    ranks: dict[str, list[int]] = {}
    for text, rank in told:
        ranks.setdefault(text, []).append(rank)
    return [(text, sorted(of)) for text, of in ranks.items()]


def _named(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {rank_ranges(ranks)}"


def _first_line(text: str) -> str:
    """Messages of rewritten assertions have more lines; the traceback has them too."""
    return text.partition("\n")[0]
