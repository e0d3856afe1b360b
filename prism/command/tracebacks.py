"""A traceback as a terminal shows it: what was raised, then where the program was; the whole of it lies in files."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import prism
from prism.core.diagnosis import Diagnosis
from prism.core.stage.phrases import TRACEBACK
from prism.folder import Folder
from prism.report.units import rank_ranges

MOST_FRAMES = 5
"""The innermost frames of the program."""
MOST_LINES, LONGEST = 4, 500
"""Of a message: an out of memory of CUDA is one line of 400 characters and more."""
MOST_TRACEBACKS = 4
"""Of ranks that raised something else, or elsewhere."""

_HEADER = f"{TRACEBACK}:"
_FRAME = re.compile(r'  File "(.+)", line \d+, in ')
_OTHERS = (f"{Path(prism.__file__).parent}/", f"{sysconfig.get_paths()['stdlib']}/", "<")
_INSTALLED = ("/site-packages/", "/dist-packages/")


class Shown(NamedTuple):
    """What of a traceback is shown; `whole`: nothing of it is left out."""

    lines: tuple[str, ...]
    whole: bool


def tracebacks(diagnosis: Diagnosis, folder: Folder, stage: str) -> Iterator[str]:
    """Lines for a person about what ranks raised in a stage, what is shown alike once, and where all of it is."""
    ranks: dict[Shown, list[int]] = {}
    for state in diagnosis.ranks:
        if state.traceback:
            ranks.setdefault(shown(state.traceback), []).append(state.rank)
    for traceback, raised in list(ranks.items())[:MOST_TRACEBACKS]:
        first, *rest = traceback.lines
        yield f"rank{'s' if len(raised) > 1 else ''} {rank_ranges(raised)}: {first}"
        yield from rest
        if not traceback.whole:
            log = folder.log(raised[0], stage)
            yield f"  in full: {log if log.exists() else folder.result}"
    if len(ranks) > MOST_TRACEBACKS:
        yield f"and {len(ranks) - MOST_TRACEBACKS} more, of other ranks: {folder.result}"


def shown(traceback: str) -> Shown:
    """The exception's message, and the innermost frames of the program, or where none is its the last of a package."""
    lines = traceback.rstrip().splitlines()
    start = max((number for number, line in enumerate(lines) if line == _HEADER), default=-1) + 1
    frames, message = _read(lines[start:])
    outside = [frame for frame in frames if not _path(frame).startswith(_OTHERS)]
    own = [frame for frame in outside if not any(place in _path(frame) for place in _INSTALLED)]
    kept = own[-MOST_FRAMES:] or outside[-1:]
    told = [line if len(line) <= LONGEST else f"{line[:LONGEST]} ..." for line in message[:MOST_LINES]]
    if len(message) > MOST_LINES:
        told.append("...")
    whole = start <= 1 and kept == frames and told == message
    return Shown((*told, *(line for frame in kept for line in frame)), whole)


def _read(lines: Iterable[str]) -> tuple[list[list[str]], list[str]]:
    """The frames, each with its lines of source, and the message behind them."""
    frames: list[list[str]] = []
    message: list[str] = []
    for line in lines:
        if not message and _FRAME.match(line):
            frames.append([line])
        elif not message and frames and line.startswith("    "):
            frames[-1].append(line)
        elif not line.startswith("  [Previous line repeated"):
            message.append(line)
    return frames, message


def _path(frame: Sequence[str]) -> str:
    found = _FRAME.match(frame[0])
    return found[1] if found is not None else ""
