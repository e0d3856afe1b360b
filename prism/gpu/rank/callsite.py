"""Where in the user's program a call comes from."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FrameType

import torch

from prism.core.diagnosis import SEPARATOR

LIBRARIES = sysconfig.get_paths()["purelib"] + os.sep
_PRISM = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_HIDDEN = (
    os.path.dirname(torch.__file__) + os.sep,
    _PRISM,
    LIBRARIES,
    sysconfig.get_paths()["stdlib"] + os.sep,
    "<",
)
FRAMES = 3
"""Frames of a site: the call is often made in a function of the program that many call."""
_CALLED = (_PRISM, *(f"{LIBRARIES}torch/distributed/{name}.py" for name in ("c10d_logger", "distributed_c10d")))
_base = ""


def set_base(directory: str) -> None:
    """Paths below this directory, the program's, are told relative to it."""
    global _base
    _base = directory.rstrip(os.sep) + os.sep
    _shown.cache_clear()


def callsite() -> str:
    """Where the program is: `path:line` of its innermost frame, then ` < ` and that of its caller, at most FRAMES.

    On a thread on which it is nowhere, as where a callback of a library runs, the library's frames take their place.
    """
    frame = sys._getframe(1)
    return site_of_frames(_callers(frame)) or SEPARATOR.join(islice(_library(_callers(frame)), FRAMES))


def site_of(frame: FrameType | None) -> str:
    """The same for another thread, given its innermost frame; empty for none."""
    return site_of_frames(_callers(frame))


def site_of_frames(frames: Iterable[tuple[str, int]]) -> str:
    """The same for frames given as (path, line), innermost first; empty if none is the program's."""
    own = (f"{shown}:{line}" for path, line in frames if (shown := _shown(path)))
    return SEPARATOR.join(islice(own, FRAMES))


def site_of_error(error: BaseException) -> str:
    """The same for where an error was raised."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return site_of_frames(reversed(frames))


def _library(frames: Iterable[tuple[str, int]]) -> Iterator[str]:
    for path, line in frames:
        if path.startswith(LIBRARIES) and not path.startswith(_CALLED):
            yield f"{path.removeprefix(LIBRARIES)}:{line}"


@functools.cache
def _shown(path: str) -> str:
    """How a file of the program is told, "" for one that is not the program's."""
    return "" if path.startswith(_HIDDEN) else path.removeprefix(_base)


def _callers(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
