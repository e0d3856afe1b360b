"""Where in the user's program a call comes from."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable
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
    return _site(frame, _shown) or _site(frame, _library)


def site_of(frame: FrameType | None) -> str:
    """The same for another thread, given its innermost frame; empty for none."""
    return _site(frame, _shown)


def site_of_frames(frames: Iterable[tuple[str, int]]) -> str:
    """The same for frames given as (path, line), innermost first; empty if none is the program's."""
    own = (f"{shown}:{line}" for path, line in frames if (shown := _shown(path)))
    return SEPARATOR.join(islice(own, FRAMES))


def site_of_error(error: BaseException) -> str:
    """The same for where an error was raised."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return site_of_frames(reversed(frames))


def _site(frame: FrameType | None, shown: Callable[[str], str]) -> str:
    """The innermost frames of files that are shown; which line others are at is not looked up, as that takes long."""
    found: list[str] = []
    while frame is not None and len(found) < FRAMES:
        if path := shown(frame.f_code.co_filename):
            found.append(f"{path}:{frame.f_lineno}")
        frame = frame.f_back
    return SEPARATOR.join(found)


@functools.cache
def _library(path: str) -> str:
    """How a file of a library is told, "" for one that is none, or that stands between the program and PRISM."""
    library = path.startswith(LIBRARIES) and not path.startswith(_CALLED)
    return path.removeprefix(LIBRARIES) if library else ""


@functools.cache
def _shown(path: str) -> str:
    """How a file of the program is told, "" for one that is not the program's."""
    return "" if path.startswith(_HIDDEN) else path.removeprefix(_base)
