"""The course of a rank's memory: the most that it held from one thing that it told to the next.

Such a stretch is a lap. It ends where the rank posts an operation, where an iteration ends, or with its program; so the
laps of a rank, in their order, end where the POST and MARK nodes of its lane are, and the last one ends behind them.
"""

from __future__ import annotations

import enum

import numpy as np


class LapEnd(enum.IntEnum):
    """What ended a lap."""

    POST = 0
    MARK = 1
    END = 2


LAP = np.dtype([("end", "u1"), ("most", "<i8")])
"""end (LapEnd), most (the most bytes that tensors took at one time, each block rounded up to 512)."""


def laps_name(rank: int) -> str:
    """The file of a rank, beside its log: a one-dimensional array of LAP, as numpy saves it."""
    return f"{rank}.memory.npy"
