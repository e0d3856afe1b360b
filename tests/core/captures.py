"""Captures for tests: ranks that post and wait against each other, without a world around them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from prism.core.calls import Call
from prism.core.diagnosis import Warning
from prism.core.events import Folded
from prism.core.stage.capture import Capture
from prism.core.stage.exchange import FoldDue
from tests.core.actors import RESULT, joined, posted, waited

Message = tuple[Call, str, int]  # what is posted, on which group, in which batch of the rank (0: in none)


def capture(size: int, *groups: str, backend: str) -> Capture:
    """A capture whose groups (left out: the default one) have been made by all ranks."""
    made = Capture(range(size))
    for group in groups or ("default",):
        for rank in range(size):
            made.join(joined(rank, range(size), group, backend))
    return made


def post(made: Capture, rank: int, handle: int, of: Call, group: str = "default", batch: int = 0) -> None:
    """A rank posts at `train.py:HANDLE`; where that calls for a fold, it is done at once."""
    event = posted(rank, handle, of, group, site=f"train.py:{handle}")
    for outcome in made.post(msgspec.structs.replace(event, batch=batch)):
        if isinstance(outcome, FoldDue):
            made.folded(Folded(rank=rank, op=outcome.op.number, results=(RESULT,)))


def wait(made: Capture, rank: int, handle: int) -> None:
    """A rank waits at `train.py:99`."""
    made.wait(waited(rank, handle, site="train.py:99"))


def act(made: Capture, *programs: Sequence[Message]) -> list[Warning]:
    """All ranks post their programs, rank by rank; returns the warnings at the end."""
    for rank, program in enumerate(programs):
        for handle, (of, group, batch) in enumerate(program, start=1):
            post(made, rank, handle, of, group, batch)
    made.conclude()
    return made.warnings.told()
