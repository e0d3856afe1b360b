"""Kills at random moments: whom, with what, in which stage, after how many events; and a crew that carries one out."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prism.core.events import AnyEvent, Exited, Launched
from prism.crew import Crew

Victim = Literal["rank", "assistant", "worker", "fork server", "coordinator"]
STAGES = ("capture", "calibrate", "emulate")

PLAN: tuple[tuple[Victim, signal.Signals], ...] = (
    ("rank", signal.SIGKILL),
    ("worker", signal.SIGKILL),
    ("rank", signal.SIGKILL),
    ("assistant", signal.SIGKILL),
    ("rank", signal.SIGSTOP),
    ("coordinator", signal.SIGKILL),
    ("rank", signal.SIGKILL),
    ("worker", signal.SIGSTOP),
    ("rank", signal.SIGKILL),
    ("assistant", signal.SIGKILL),
    ("fork server", signal.SIGKILL),
    ("coordinator", signal.SIGSTOP),
    ("assistant", signal.SIGSTOP),
    ("fork server", signal.SIGSTOP),
)
"""Victims in turns; the last two are found out after eight seconds each: they are not among the first twelve."""


@dataclass(frozen=True)
class Kill:
    """One kill: after the share `moment` of the stage's events."""

    victim: Victim
    signal: signal.Signals
    stage: str
    moment: float
    seed: int

    def __str__(self) -> str:
        return f"{self.signal.name} {self.victim} in {self.stage} at {self.moment:.2f}"


def kills(count: int, seed: int = 6) -> list[Kill]:
    """So many, the same for the same seed."""
    chosen = random.Random(seed)
    found = []
    for number in range(count):
        victim, what = PLAN[number % len(PLAN)]
        stage = "emulate" if victim == "assistant" else STAGES[chosen.randrange(len(STAGES))]
        found.append(Kill(victim, what, stage, chosen.random(), chosen.randrange(1 << 30)))
    return found


class KillingCrew(Crew):
    """A crew that counts its events and carries out a kill among its processes; not for coordinators."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = 0
        self.killed = ""  # who was, as the run may call it
        self._kill: Kill | None = None
        self._at = 0
        self._pids: dict[int, int] = {}

    @property
    def worker(self) -> int:
        assert self._process is not None
        return self._process.pid

    def plan(self, kill: Kill | None, events: int) -> None:
        """Begin to count, and kill once so many events were heard."""
        self.heard, self._at, self._kill, self.killed = 0, int(events * (kill.moment if kill else 0)), kill, ""

    async def events(self) -> tuple[AnyEvent, ...]:
        found = await super().events()
        for event in found:
            if isinstance(event, Launched):
                self._pids[event.rank] = event.pid
            if isinstance(event, Exited):
                self._pids.pop(event.rank, None)
        self.heard += len(found)
        if self._kill is not None and self.heard >= self._at:
            self._carry_out(self._kill)
        return found

    def _carry_out(self, kill: Kill) -> None:
        chosen = random.Random(kill.seed)
        candidates = dict(self._candidates(kill.victim))
        if not candidates:
            return  # later
        self.killed = chosen.choice(sorted(candidates))
        os.kill(candidates[self.killed], kill.signal)
        self._kill = None

    def _candidates(self, victim: Victim) -> Iterator[tuple[str, int]]:
        match victim:
            case "rank":
                yield from ((f"rank {rank}", pid) for rank, pid in self._pids.items() if printing(pid))
            case "assistant":
                for pid in below(self.worker):
                    name = printing(pid)
                    if name.startswith("assistant-"):
                        yield name.removesuffix(".log").replace("-", " "), pid
            case "worker":
                yield "worker-0", self.worker
            case "fork server":
                yield from (("fork server", pid) for pid in children(self.worker))


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def below(pid: int) -> list[int]:
    """All processes that come from one, as far as their parents live."""
    found = children(pid)
    return [*found, *(one for child in found for one in below(child))]


def printing(pid: int) -> str:
    """The name of the file that a process prints into; "" for one that is gone."""
    try:
        return Path(f"/proc/{pid}/fd/1").readlink().name
    except OSError:
        return ""


def marked(mark: str) -> list[int]:
    """The processes that have this text in the environment that they began with, but for this one."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (directory / "environ").read_bytes() and int(directory.name) != os.getpid():
                found.append(int(directory.name))
        except OSError:
            continue
    return found
