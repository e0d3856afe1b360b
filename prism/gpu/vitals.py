"""Whether the processes that PRISM never stops are stopped by somebody else, which would hold the run up for ever."""

from __future__ import annotations

from collections.abc import Mapping

from prism.gpu import processes

LOOKS = 8
"""Looks in a row that have to find a process stopped; a debugger, or who suspends a machine, may stop one for a bit."""


class Vitals:
    """Looks at processes now and then."""

    def __init__(self) -> None:
        self._stopped: dict[int, int] = {}  # looks in a row, by pid

    def look(self, named: Mapping[str, int]) -> str:
        """The name of a process that has been stopped for LOOKS looks, "" if there is none."""
        self._stopped = {pid: self._stopped.get(pid, 0) + 1 for pid in named.values() if processes.is_stopped(pid)}
        return next((name for name, pid in named.items() if self._stopped.get(pid) == LOOKS), "")
