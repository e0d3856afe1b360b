"""The board of an emulation on several hosts: what is written on one of them shows on the others a moment later.

Every cell has one writer, so a host tells the others what its own processes have written, and writes what it is told.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

import numpy as np

from prism.core.graph import Int64

LOOK_S = 0.0001
"""How often cells are looked at on which others wait; those who read them look as often."""
AT_LEISURE_S = 0.05
"""The same for counts, which are read in the end."""
_HEADER = struct.Struct("<I")
WIDTH = 16
"""Bytes of a cell on its way: which, and what it holds."""


def tell(cells: Int64, own: Int64, lines: list[socket.socket], stop: threading.Event, every_s: float) -> None:
    """Tell all the others of cells that this host writes, as they change, until `stop` is set; raises OSError."""
    told = np.zeros(len(own), np.int64)
    with contextlib.ExitStack() as open_lines:
        for line in lines:
            open_lines.enter_context(line)
        _tell(cells, own, told, lines, stop, every_s)


def _tell(
    cells: Int64, own: Int64, told: Int64, lines: list[socket.socket], stop: threading.Event, every_s: float
) -> None:
    while True:
        last = stop.is_set()
        here = cells[own]
        changed = np.flatnonzero(here != told)
        if len(changed):
            told[changed] = here[changed]
            rows = np.stack((own[changed], here[changed]), axis=1).astype("<i8")
            data = _HEADER.pack(len(rows)) + rows.tobytes()
            for line in lines:
                line.sendall(data)
        if last:
            return
        stop.wait(every_s) if every_s > LOOK_S else time.sleep(every_s)


def hear(cells: Int64, line: socket.socket) -> None:
    """Write what another host tells, until it hangs up."""
    with line, line.makefile("rb") as stream:
        while header := stream.read(_HEADER.size):
            (count,) = _HEADER.unpack(header)
            rows = np.frombuffer(stream.read(count * WIDTH), "<i8").reshape(-1, 2)
            cells[rows[:, 0]] = rows[:, 1]
