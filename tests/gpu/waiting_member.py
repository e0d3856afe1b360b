"""A sandbox rank in the middle of an all_reduce that cannot end; prints how it does. A line on its input: it leaves."""

from __future__ import annotations

import ctypes
import os
import sys
import threading

from prism.core.graph import OpKind
from prism.gpu.pruned import Aborted, Member, Op

OP = Op(OpKind.ALL_REDUCE, 3, "float32", "sum", count=1000)
"""Of two sandbox ranks, 0 and 1, and a virtual one that nobody plays."""


def take_part(directory: str, rank: int) -> None:
    """Send what the others need, and wait for the virtual rank."""
    data = (ctypes.c_float * OP.count)()
    member = Member(directory, "g", OP.size, (0, 1), rank)
    with member:
        try:
            member.run(OP, ctypes.addressof(data), ctypes.addressof(data))
        except Aborted as aborted:
            print(aborted, flush=True)


if __name__ == "__main__":
    taking_part = threading.Thread(target=take_part, args=(sys.argv[1], int(sys.argv[2])))
    taking_part.start()
    if sys.stdin.readline():
        os._exit(0)
    taking_part.join()
