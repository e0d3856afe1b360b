"""How much memory this process and all below it take together, looked at while something runs."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

LOOK_S = 0.25


class Resident:
    """A context manager; `most` is the largest sum of what the processes have for themselves, in bytes (PSS)."""

    def __init__(self) -> None:
        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            self.most = max(self.most, sum(map(_pss, _below("self"))))


def _below(process: str) -> list[str]:
    """A process and all that it has begun."""
    found = [process]
    for task in Path(f"/proc/{process}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            found += _below(child)
    return found


def _pss(process: str) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
