"""What all ranks will take of the host's memory, said as soon as the first of them have told what they hold."""

from __future__ import annotations

from pathlib import Path

from prism.core.stage.admission import Admissions, amount

STEP = 1.25
"""A forecast that has grown by this factor is worth being said again."""


class Forecast:
    """Of one run; what has been said is not said again."""

    def __init__(self) -> None:
        self._said = 0.0

    def told(self, admissions: Admissions) -> str:
        """A line to say now, of the host whose ranks will take most; "" for none."""
        fullest = admissions.fullest
        whole = fullest.forecast
        if not whole or whole < self._said * STEP:
            return ""
        self._said = whole
        text = f"{fullest.ranks} will take about {amount(whole)} of host memory"
        bound, there = fullest.memory.bound, _available() + fullest.held
        if 0 < bound < whole:
            how = "spill what they hold above" if fullest.memory.spills else "are held back above"
            text += f"; they {how} {amount(bound)}"
        elif not bound and whole > there and len(admissions.hosts) == 1:  # else it is another machine's memory
            text += f", and this machine has {amount(there)}; set devices.host_memory and devices.spill"
        return text


def _available() -> int:
    """Bytes that processes could get without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
