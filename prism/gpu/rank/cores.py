"""How long a rank's main thread ran, and how long it could have run and had no core."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_SCHEDSTAT = Path("/proc/self/schedstat")  # of the thread that the process began with


class Cores(NamedTuple):
    """Times since the process began, in ns."""

    ran: int
    queued: int

    def since(self, before: Cores) -> Cores:
        """The same since an earlier moment."""
        return Cores(self.ran - before.ran, self.queued - before.queued)


def cores() -> Cores:
    """The times until now; zeros where the kernel does not tell (sched-stats.rst of Linux)."""
    try:
        ran, queued, _ = map(int, _SCHEDSTAT.read_text().split())
    except (OSError, ValueError):
        return Cores(0, 0)
    return Cores(ran, queued)
