"""Where a stage stands at one moment, and how long it may still take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from prism.core.stage.residency import MOVING, Place, Residency
from prism.core.stage.states import State
from prism.core.stage.world import World

INTERVAL_S = 0.2
"""Looking at thousands of ranks costs milliseconds: once in so long is enough for eyes."""
LETTERS = {
    State.NEW: "n", State.LAUNCHING: "r", State.RUNNING: "r", State.BLOCKED: "b", State.READY: "w", State.STOPPED: "w",
    State.FINISHING: "e", State.ENDED: "e",
}  # fmt: skip
"""new, running, blocked on others, waiting for a slot, ended."""
NAMES = {"n": "not begun", "r": "running", "b": "blocked", "w": "in line", "e": "ended"}
PLACES = {Place.HOST: "in host memory", Place.DISK: "on disk"} | dict.fromkeys(MOVING, "on the way")
"""Where ranks have the memory that is not on their device."""
ASKING = "asking for room"


class Snapshot(msgspec.Struct, kw_only=True):
    """One moment of a stage; `states` has a letter for each rank, see LETTERS."""

    stage: str
    elapsed_s: float
    part: int = 0  # slices that are done, of `parts`
    parts: int = 1
    share: float = 0.0  # of the stage that is done, as far as that is known
    eta_s: float | None = None
    states: str = ""
    iterations: tuple[int, int] = (0, 0)  # that the slowest and the fastest rank have ended
    switches: int = 0
    switches_per_s: float = 0.0
    memory: int = 0  # bytes that processes of ranks hold, where that is bounded
    host: tuple[int, int] = (0, 0)  # bytes of this machine that are taken, and that it has
    away: dict[str, int] = {}  # ranks whose memory is not on their device, by where it is

    def text(self) -> str:
        """One line for a person."""
        counts = Counter(self.states)
        told = [", ".join(f"{counts[letter]} {name}" for letter, name in NAMES.items() if counts[letter])]
        low, high = self.iterations
        told.append(f"iteration {low}" + (f"-{high}" if high > low else ""))
        if self.switches_per_s >= 1:
            told.append(f"{self.switches_per_s:,.0f} switches/s")
        if self.memory:
            told.append(f"{self.memory / 1024**3:.1f} GiB")
        elif self.host[1]:
            told.append(f"memory {self.host[0] / 1024**3:.1f} of {self.host[1] / 1024**3:.0f} GiB")
        if self.away:
            told.append(
                "device memory of ranks: " + ", ".join(f"{count} {where}" for where, count in self.away.items())
            )
        if self.eta_s is not None:
            told.append(f"{self.eta_s:,.0f} s left")
        return "; ".join(told)


def host_memory(table: Path = Path("/proc/meminfo")) -> tuple[int, int]:
    """Bytes of this machine's memory that are taken, and all that it has; zeros where nobody tells."""
    try:
        rows = dict(line.split(":", 1) for line in table.read_text().splitlines())
        total, free = (int(rows[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return 0, 0
    return total - free, total


def away(residency: Residency) -> dict[str, int]:
    """Ranks whose memory is not on their device, by where it is, and those that ask for more of it."""
    found = Counter(name for place, name in PLACES.items() for _ in residency.at(place))
    if residency.asking:
        found[ASKING] = len(residency.asking)
    return dict(found)


class Watch:
    """Looks at a stage from time to time; `iterations` is how many each rank will end, 0 where that is not known."""

    def __init__(
        self,
        iterations: int = 0,
        clock: Callable[[], float] = time.monotonic,
        host: Callable[[], tuple[int, int]] = host_memory,
    ) -> None:
        self._iterations = iterations
        self._host = host
        self._clock = clock
        self.begin("")

    def begin(self, stage: str) -> None:
        """A stage begins."""
        self.now = Snapshot(stage=stage, elapsed_s=0.0)
        self._began = self._seen = self._clock()

    def step(self, done: int, total: int) -> None:
        """A slice begins; so many were done before."""
        self.now.part, self.now.parts = done, max(1, total)

    def look(self, world: World) -> Snapshot | None:
        """What is seen now; None if it is too soon to look again."""
        at = self._clock()
        if at - self._seen < INTERVAL_S and self.now.states:
            return None
        ranks = world.ranks.values()
        marks = [rank.iterations for rank in ranks]
        switches = sum(rank.switches for rank in ranks)
        part = self._part(world, marks)
        share = (self.now.part + part) / self.now.parts
        elapsed = at - self._began
        self.now = Snapshot(
            stage=self.now.stage,
            elapsed_s=elapsed,
            part=self.now.part,
            parts=self.now.parts,
            share=share,
            eta_s=elapsed / share - elapsed if share > 0.05 else None,
            states="".join(LETTERS[rank.state] for rank in ranks),
            iterations=(min(marks, default=0), max(marks, default=0)),
            switches=switches,
            switches_per_s=max(0, switches - self.now.switches) / max(at - self._seen, 1e-9),
            memory=world.admission.held,
            host=self._host(),
            away=away(world.pager.residency),
        )
        self._seen = at
        return self.now

    def _part(self, world: World, marks: list[int]) -> float:
        """How much of the slice is done: by iterations if their number is known, else by ranks that have ended."""
        ended = world.ended / max(1, len(world.ranks))
        if not self._iterations:
            return ended
        return max(ended, sum(marks) / (len(marks) * self._iterations))
