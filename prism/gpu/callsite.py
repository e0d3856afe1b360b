"""Where in the user's program a call comes from."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from types import FrameType

import torch

_HIDDEN = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    sysconfig.get_paths()["purelib"] + os.sep,
    sysconfig.get_paths()["stdlib"] + os.sep,
    "<",
)
_base = ""


def set_base(directory: str) -> None:
    """Paths below this directory, the program's, are told relative to it."""
    global _base
    _base = directory.rstrip(os.sep) + os.sep


def callsite() -> str:
    """`path:line` of the innermost calling frame outside torch, site-packages and PRISM; empty if there is none."""
    return site_of_frames(_callers(sys._getframe(1)))


def site_of_frames(frames: Iterable[tuple[str, int]]) -> str:
    """The same for frames given as (path, line), innermost first."""
    for path, line in frames:
        if not path.startswith(_HIDDEN):
            return f"{path.removeprefix(_base)}:{line}"
    return ""


def _callers(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
