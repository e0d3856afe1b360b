"""What a rank printed last, where nothing else says why it ended."""

from __future__ import annotations

from collections.abc import Iterator

from prism.core.diagnosis import Diagnosis
from prism.folder import Folder

LINES = 6


def last_words(diagnosis: Diagnosis, folder: Folder) -> Iterator[str]:
    """Lines for a person: the end of the log of the first rank that left, if no rank has a traceback."""
    left = [state.rank for state in diagnosis.ranks if "exit code" in state.state]
    if diagnosis.kind != "rank_failed" or not left or any(state.traceback for state in diagnosis.ranks):
        return
    log = folder.logs / f"{left[0]}.log"
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return
    if lines:
        yield f"rank {left[0]} printed last ({log}):"
        yield from (f"  {line}" for line in lines[-LINES:])
