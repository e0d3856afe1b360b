"""Whether processes are stopped by somebody else than PRISM, which would hold the run up for ever."""

from __future__ import annotations

from collections.abc import Mapping

from prism.gpu.processes import proc

LOOKS = 8
"""Looks in a row that have to find a process stopped; a debugger, or who suspends a machine, may stop one for a bit."""
AT_A_TIME = 512
"""Processes that are looked at in one go, in turns where there are more: that takes some ten milliseconds."""


class Vitals:
    """Looks at processes now and then."""

    def __init__(self) -> None:
        self._stopped: dict[int, int] = {}  # looks in a row, by pid
        self._first = 0  # where the next look begins

    def look(self, named: Mapping[str, int]) -> list[str]:
        """The names of all that are stopped, once one of them has been for LOOKS looks; none before that."""
        there = list(named.values())
        self._stopped = {pid: looks for pid, looks in self._stopped.items() if pid in named.values()}
        for pid in there[self._first : self._first + AT_A_TIME]:
            if proc.is_stopped(pid):
                self._stopped[pid] = self._stopped.get(pid, 0) + 1
            else:
                self._stopped.pop(pid, None)
        self._first = self._first + AT_A_TIME if self._first + AT_A_TIME < len(there) else 0
        if LOOKS not in self._stopped.values():
            return []
        return [name for name, pid in named.items() if pid in self._stopped]
