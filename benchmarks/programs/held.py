"""A job that waits for its turn, so that several can get ready at one time and be timed one after the other.

    python held.py SCRIPT ARGUMENT...     with the folder of turns in `HELD`; without it nothing waits

A rank waits after the first step of an optimizer, when the device is done with it, and again when the script has ended,
before its process ends. It leaves `ready-RANK` and `done-RANK` in the folder, and goes on when `go-RANK` and `leave`
are there.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST_S = 400.0
LOOKS_S = 0.003


class Turns:
    """The folder of a run, as one of its ranks sees it."""

    def __init__(self, folder: Path, rank: str) -> None:
        self._folder = folder
        self._rank = rank
        self._begun = False

    def begin(self) -> None:
        """Wait for the turn; once."""
        if not self._begun:
            self._begun = True
            _device_done()
            self._say("ready")
            self._wait(f"go-{self._rank}")

    def end(self) -> None:
        """The turn is over; wait until all may leave."""
        self._say("done")
        self._wait("leave")

    def _say(self, what: str) -> None:
        (self._folder / f"{what}-{self._rank}").touch()

    def _wait(self, name: str) -> None:
        deadline = time.monotonic() + LONGEST_S
        names = (name, "leave")  # who has had no turn when all leave will have none
        while time.monotonic() < deadline and not any((self._folder / each).exists() for each in names):
            time.sleep(LOOKS_S)
        if not (self._folder / name).exists():
            raise TimeoutError(f"no {name} in {self._folder}")


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """What is timed, in a program that says so itself."""
    turns = of_environment()
    if turns is None:
        yield
        return
    turns.begin()
    yield
    _device_done()
    turns.end()


def of_environment() -> Turns | None:
    """None: nothing waits."""
    folder = os.environ.get("HELD")
    return Turns(Path(folder), os.environ.get("RANK", "0")) if folder else None


def _device_done() -> None:
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def main() -> None:
    """The job."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    turns = of_environment()
    if turns is not None:
        begin = turns.begin

        def stepped(*_: Any) -> None:
            begin()

        register_optimizer_step_post_hook(stepped)
    runpy.run_path(sys.argv[0], run_name="__main__")
    if turns is not None:
        turns.end()


if __name__ == "__main__":
    main()
