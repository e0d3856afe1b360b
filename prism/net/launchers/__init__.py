"""Launchers: who starts the workers of a run. What they have in common is here; the kinds are the other modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prism.net.keys import WorkerKeys


@dataclass(frozen=True)
class Meeting:
    """Where workers meet the coordinator: its address, the keys of the run, and its private directory on its host."""

    address: str
    keys: WorkerKeys
    scratch: Path


class Started(Protocol):
    """A worker that the launcher has started itself, and can see."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def pid(self) -> int | None:
        """Its process, where that is one of this host."""

    @property
    def gone(self) -> bool:
        """Whether it has ended."""

    async def ended(self) -> str:
        """Return when it has gone: how, in a word or two."""

    def kill(self) -> None:
        """End it at once, and its ranks with it."""


class Launcher(Protocol):
    """Starts `workers` workers, or lets somebody else do it."""

    workers: int
    wait_s: float  # how long they may be in coming

    async def open(self) -> str:
        """Where the coordinator is to listen for them."""

    async def start(self, meeting: Meeting) -> Sequence[Started]:
        """Start the workers; returns those that can be seen from here."""

    def told(self, address: str) -> str:
        """What the user has to know or do while the workers come; "" for nothing."""

    def late(self, address: str) -> str:
        """What to do where they have not come in time."""

    async def end(self) -> None:
        """The run is over: take away what was made for it."""
