"""The board of an emulation on several hosts: what is written on one of them shows on the others a moment later.

Every cell has one writer, so a host tells the others what its own processes have written, and writes what it is told.
"""

from __future__ import annotations

import threading
import time

import numpy as np

from prism.core.graph import Int64
from prism.gpu.pruned.bridge import Line
from prism.gpu.pruned.seal import Seal, receive

LOOK_S = 0.0001
"""How often cells are looked at on which others wait; those who read them look as often."""
AT_LEISURE_S = 0.05
"""The same for counts, which are read in the end."""
WIDTH = 16
"""Bytes of a cell on its way: which, and what it holds."""


def tell(cells: Int64, own: Int64, lines: list[Line], stop: threading.Event, every_s: float) -> None:
    """Tell all the others of cells that this host writes, as they change, until `stop` is set; raises OSError."""
    told, ways = np.zeros(len(own), np.int64), [(line.connection, Seal(line.key)) for line in lines]
    try:
        while True:
            last = stop.is_set()
            here = cells[own]
            changed = np.flatnonzero(here != told)
            if len(changed):
                told[changed] = here[changed]
                rows = np.stack((own[changed], here[changed]), axis=1).astype("<i8").tobytes()
                for connection, seal in ways:
                    connection.sendall(seal.close(rows))
            if last:
                return
            stop.wait(every_s) if every_s > LOOK_S else time.sleep(every_s)
    finally:
        for connection, _ in ways:
            connection.close()


def hear(cells: Int64, line: Line) -> None:
    """Write what another host tells, until it hangs up; raises OSError."""
    seal = Seal(line.key)
    with line.connection as connection:
        while (told := receive(connection, seal, len(cells) * WIDTH)) is not None:
            rows = np.frombuffer(told, "<i8").reshape(-1, 2)
            cells[rows[:, 0]] = rows[:, 1]
