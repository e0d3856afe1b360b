"""Who is told how a run goes."""

from __future__ import annotations

from typing import Protocol

from prism.core.stage.world import World


class Observer(Protocol):
    """Who is told how the run goes; nothing it does can break the run."""

    def begin(self, stage: str) -> None:
        """A stage begins."""

    def step(self, done: int, total: int) -> None:
        """So many parts of the stage are done."""

    def watch(self, world: World) -> None:
        """Where the ranks stand now; called at every tick."""

    def say(self, text: str) -> None:
        """Somebody has to act on this."""

    def end(self, stage: str, status: str, wall_s: float) -> None:
        """A stage has ended: ok, failed or interrupted."""


class Silent:
    """Says nothing."""

    def begin(self, stage: str) -> None: ...
    def step(self, done: int, total: int) -> None: ...
    def watch(self, world: World) -> None: ...
    def say(self, text: str) -> None: ...
    def end(self, stage: str, status: str, wall_s: float) -> None: ...


class Several:
    """Passes all on to several."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def begin(self, stage: str) -> None:
        for observer in self._observers:
            observer.begin(stage)

    def step(self, done: int, total: int) -> None:
        for observer in self._observers:
            observer.step(done, total)

    def watch(self, world: World) -> None:
        for observer in self._observers:
            observer.watch(world)

    def say(self, text: str) -> None:
        for observer in self._observers:
            observer.say(text)

    def end(self, stage: str, status: str, wall_s: float) -> None:
        for observer in self._observers:
            observer.end(stage, status, wall_s)
