"""Showing how a run goes: a live line on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import time
from collections import Counter
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from prism.core.stage.world import World

PLAIN_S = 5.0
"""How often a stage that goes on says so where there is no terminal."""


class Observer(Protocol):
    """Who is told how the run goes; nothing it does can break the run."""

    def begin(self, stage: str) -> None:
        """A stage begins."""

    def step(self, done: int, total: int) -> None:
        """So many parts of the stage are done."""

    def watch(self, world: World) -> None:
        """Where the ranks stand now."""

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


class Plain:
    """A line when a stage begins and ends, and now and then in between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._part = ""
        self._told = 0.0

    def begin(self, stage: str) -> None:
        self._part, self._told = "", time.monotonic()
        self._say(f"{stage} ...")

    def step(self, done: int, total: int) -> None:
        self._part = f"{done}/{total} slices, " if total > 1 else ""

    def watch(self, world: World) -> None:
        if time.monotonic() - self._told >= PLAIN_S:
            self._told = time.monotonic()
            self._say(f"    {self._part}{_ranks(world)}")

    def say(self, text: str) -> None:
        self._say(text)

    def end(self, stage: str, status: str, wall_s: float) -> None:
        self._say(f"{stage} {status} ({wall_s:.1f} s)")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class Live:
    """One line that moves: the stage, how far it is, where the ranks stand."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text="✓"), TextColumn("{task.description:<10}"), BarColumn(bar_width=24),
            TextColumn("{task.fields[ranks]}"), TimeElapsedColumn(), console=console,
        )  # fmt: skip
        self._part = (0, 1)

    def begin(self, stage: str) -> None:
        self._progress.start()
        self._task = self._progress.add_task(stage, total=1.0, ranks="")
        self._part = (0, 1)

    def step(self, done: int, total: int) -> None:
        self._part = (done, total)

    def watch(self, world: World) -> None:
        done, total = self._part
        share = world.ended / len(world.ranks)
        self._progress.update(self._task, completed=(done + share) / total, ranks=_ranks(world))

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def end(self, stage: str, status: str, wall_s: float) -> None:
        completed = {"completed": 1.0} if status == "ok" else {}
        self._progress.update(self._task, ranks="" if status == "ok" else status, **completed)  # type: ignore[arg-type]
        self._progress.stop()


def observer(quiet: bool) -> Observer:
    """What fits standard error."""
    console = Console(stderr=True)
    if quiet:
        return Silent()
    return Live(console) if console.is_terminal else Plain(console)


def _ranks(world: World) -> str:
    counts = Counter(rank.state.value for rank in world.ranks.values())
    marks = [rank.iterations for rank in world.ranks.values()]
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"{told}; iteration {min(marks)}" + (f"-{max(marks)}" if max(marks) > min(marks) else "")
