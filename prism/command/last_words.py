"""What a rank printed last, where nothing else says why it ended."""

from __future__ import annotations

from collections.abc import Iterator

from prism.core.diagnosis import Diagnosis
from prism.folder import Folder

LINES = 6


def last_words(diagnosis: Diagnosis, folder: Folder, stage: str) -> Iterator[str]:
    """Lines for a person: what the first rank that left printed last in a stage, if no rank has a traceback."""
    left = [state.rank for state in diagnosis.ranks if "exit code" in state.state]
    if diagnosis.kind != "rank_failed" or not left or any(state.traceback for state in diagnosis.ranks):
        return
    log = folder.log(left[0], stage)
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return
    if lines:
        yield f"rank {left[0]} printed last ({log}):"
        yield from (f"  {line}" for line in lines[-LINES:])
