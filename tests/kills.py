"""Blows at random moments: who is killed or stopped, or which fault a message has, in which stage, after how many
events; and a crew that carries one out.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prism.core.events import AnyEvent, Exited, Launched
from prism.crew import Crew
from prism.net.launchers.local import LocalLauncher
from tests.net.faulty import Fault, FaultyListener

Victim = Literal[
    "rank", "assistant", "worker", "fork server", "coordinator", "word to the worker", "word of the worker"
]
STAGES = ("capture", "calibrate", "emulate")
STARTING = "start"
"""The stage before the first: the worker and the fork server come up, which takes START_S."""
START_S = 2.0
START_MOST_S = 600.0
"""How long it may take at most, on a machine that is full."""
LONGEST_PAUSE_S = 0.005
"""How long after an event a kill comes at most: not only where something was just said."""

PLAN: tuple[tuple[Victim, signal.Signals | Fault], ...] = (
    ("rank", signal.SIGKILL),
    ("worker", signal.SIGKILL),
    ("word of the worker", "drop"),
    ("assistant", signal.SIGKILL),
    ("rank", signal.SIGSTOP),
    ("word to the worker", "drop"),
    ("coordinator", signal.SIGKILL),
    ("worker", signal.SIGSTOP),
    ("word to the worker", "delay"),
    ("fork server", signal.SIGKILL),
    ("rank", signal.SIGKILL),
    ("assistant", signal.SIGSTOP),
    ("word of the worker", "truncate"),
    ("coordinator", signal.SIGSTOP),
    ("word to the worker", "reorder"),
    ("fork server", signal.SIGSTOP),
    ("word of the worker", "duplicate"),
    ("rank", signal.SIGKILL),
    ("word of the worker", "delay"),
    ("assistant", signal.SIGKILL),
    ("word of the worker", "reorder"),
    ("word to the worker", "truncate"),
    ("word to the worker", "duplicate"),
)
"""Victims in turns."""


@dataclass(frozen=True)
class Kill:
    """One kill: `pause` seconds after the share `moment` of the stage's events."""

    number: int
    victim: Victim
    blow: signal.Signals | Fault
    stage: str
    moment: float
    pause: float
    seed: int

    def __str__(self) -> str:
        blow = self.blow.name if isinstance(self.blow, signal.Signals) else self.blow
        return f"{self.number}: {blow} {self.victim} in {self.stage} at {self.moment:.2f}"


def kills(count: int, seed: int = 6) -> list[Kill]:
    """So many, the same for the same seed."""
    chosen = random.Random(seed)
    found = []
    for number in range(count):
        victim, blow = PLAN[number % len(PLAN)]
        starting = (STARTING,) if victim in ("worker", "fork server", "coordinator") else ()
        stages = ("emulate",) if victim == "assistant" else (*STAGES, *starting)
        stage = stages[chosen.randrange(len(stages))]
        pause = chosen.random() * LONGEST_PAUSE_S
        found.append(Kill(number, victim, blow, stage, chosen.random(), pause, chosen.randrange(1 << 30)))
    return found


class KillingCrew(Crew):
    """A crew that counts its events and carries out a kill among its processes; not for coordinators."""

    def __init__(self) -> None:
        launcher = LocalLauncher()
        launcher.wait_s = START_MOST_S
        super().__init__(launcher)
        self.heard = 0
        self.killed = ""  # who was, as the run may call it
        self.killed_at = 0.0  # s of the monotonic clock
        self.launched: dict[int, int] = {}  # pids of ranks that have not ended
        self._kill: Kill | None = None
        self._at = 0

    @property
    def worker(self) -> int:
        assert self.started[0].pid is not None
        return self.started[0].pid

    def plan(self, kill: Kill | None, events: int) -> None:
        """Begin to count, and kill once so many events were heard, or so late in the start."""
        self.heard, self._at, self._kill, self.killed = 0, int(events * (kill.moment if kill else 0)), kill, ""
        self.killed_at = time.monotonic()
        if kill is not None and kill.stage == STARTING:
            asyncio.get_running_loop().call_later(kill.moment * START_S, self._insist, kill)

    async def events(self) -> tuple[AnyEvent, ...]:
        found = await super().events()
        for event in found:
            if isinstance(event, Launched):
                self.launched[event.rank] = event.pid
            if isinstance(event, Exited):
                self.launched.pop(event.rank, None)
        self.heard += len(found)
        if self._kill is not None and self._kill.stage != STARTING and self.heard >= self._at:
            asyncio.get_running_loop().call_later(self._kill.pause, self._carry_out, self._kill)
        return found

    def _insist(self, kill: Kill) -> None:
        """Carry it out as soon as there is somebody to kill."""
        self._carry_out(kill)
        if self._kill is kill:
            asyncio.get_running_loop().call_later(LONGEST_PAUSE_S, self._insist, kill)

    def _carry_out(self, kill: Kill) -> None:
        """Kill one of the victims; where there is none, the next event tries again."""
        if self._kill is not kill:
            return  # it was carried out, or another is planned
        if not isinstance(kill.blow, signal.Signals):
            self._garble(kill.victim, kill.blow)
        elif candidates := dict(self._candidates(kill.victim)):
            self.killed = random.Random(kill.seed).choice(sorted(candidates))
            os.kill(candidates[self.killed], kill.blow)
        else:
            return
        self.killed_at = time.monotonic()
        self._kill = None

    def _garble(self, victim: Victim, fault: Fault) -> None:
        """The next message that way has the fault."""
        assert self._hub is not None
        faulty = self._hub._listener
        assert isinstance(faulty, FaultyListener), "the listener is made so by the test"
        (faulty.going if victim == "word to the worker" else faulty.coming).fault = fault
        self.killed = victim

    def _candidates(self, victim: Victim) -> Iterator[tuple[str, int]]:
        if not self.started or self.started[0].gone:
            return
        match victim:
            case "rank":
                yield from ((f"rank {rank}", pid) for rank, pid in self.launched.items() if printing(pid))
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
