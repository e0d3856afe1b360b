"""How a run goes on standard error: a line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from prism.core.stage.world import World
from prism.live.observer import Observer, Silent
from prism.live.snapshot import Watch

PLAIN_S = 5.0
"""How often a stage that goes on says so where there is no terminal."""


class Plain:
    """A line when a stage begins and ends, and now and then in between."""

    def __init__(self, console: Console, watch: Watch) -> None:
        self._console = console
        self._watch = watch
        self._told = 0.0

    def begin(self, stage: str) -> None:
        self._watch.begin(stage)
        self._told = time.monotonic()
        self.say(f"{stage} ...")

    def step(self, done: int, total: int) -> None:
        self._watch.step(done, total)

    def watch(self, world: World) -> None:
        if time.monotonic() - self._told >= PLAIN_S and (seen := self._watch.look(world)):
            self._told = time.monotonic()
            part = f"{seen.part}/{seen.parts} slices, " if seen.parts > 1 else ""
            self.say(f"    {part}{seen.text()}")

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def end(self, stage: str, status: str, wall_s: float) -> None:
        self.say(f"{stage} {status} ({wall_s:.1f} s)")


class Moving:
    """One line that moves: the stage, how far it is, where the ranks stand, and how long it may still take."""

    def __init__(self, console: Console, watch: Watch) -> None:
        self._console = console
        self._watch = watch

    def begin(self, stage: str) -> None:
        self._watch.begin(stage)
        self._progress = _line(self._console)  # one for each stage: it would write the lines of those before again
        self._task = self._progress.add_task(stage, total=None, ranks="")
        self._progress.start()

    def step(self, done: int, total: int) -> None:
        self._watch.step(done, total)

    def watch(self, world: World) -> None:
        if seen := self._watch.look(world):
            total = 1.0 if seen.share else None  # a bar that pulses, until something is known
            self._progress.update(self._task, total=total, completed=seen.share, ranks=seen.text())

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def end(self, stage: str, status: str, wall_s: float) -> None:
        if status == "ok":
            self._progress.update(self._task, total=1.0, completed=1.0, ranks="")
        else:
            self._progress.update(self._task, total=1.0, ranks=status)
        self._progress.stop()


def _line(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(finished_text="✓"), TextColumn("{task.description:<10}"), BarColumn(bar_width=24),
        TextColumn("{task.fields[ranks]}"), TimeElapsedColumn(), console=console,
    )  # fmt: skip


def on_standard_error(quiet: bool, iterations: int) -> Observer:
    """What fits standard error; `iterations` is how many each rank will end, 0 where that is not known."""
    console = Console(stderr=True)
    if quiet:
        return Silent()
    watch = Watch(iterations)
    return Moving(console, watch) if console.is_terminal else Plain(console, watch)
