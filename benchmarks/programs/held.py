"""A job that waits for its turn, so that several can get ready at one time and be timed one after the other.

    python held.py SCRIPT ARGUMENT...     with the folder of turns in `HELD`; without it nothing waits

A rank waits after the first step of an optimizer, when the device is done with it, and again when the script has ended,
before its process ends. It leaves `ready-RANK` and `done-RANK` in the folder, and goes on when it reads GO and LEAVE
from its FIFO `line-RANK`, so that nobody looks for files while another one is timed. Where `leave` is there none waits.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST_S = 400.0
GO, LEAVE = b"g", b"l"


def tell(folder: Path, rank: str, word: bytes) -> None:
    """Let a rank go on that waits for this word, now or later; one that has not come so far hears nothing."""
    with contextlib.suppress(OSError):
        line = os.open(folder / f"line-{rank}", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(line, word)
        finally:
            os.close(line)


class Turns:
    """The folder of a run, as one of its ranks sees it."""

    def __init__(self, folder: Path, rank: str) -> None:
        self._folder = folder
        self._rank = rank
        self._begun = False
        self._line = -1

    def begin(self) -> None:
        """Wait for the turn; once."""
        if not self._begun:
            self._begun = True
            _device_done()
            self._open()
            self._say("ready")
            self._wait(GO)

    def end(self) -> None:
        """The turn is over; wait until all may leave."""
        self._open()
        self._say("done")
        self._wait(LEAVE)

    def _say(self, what: str) -> None:
        (self._folder / f"{what}-{self._rank}").touch()

    def _open(self) -> None:
        if self._line < 0:
            path = self._folder / f"line-{self._rank}"
            with contextlib.suppress(FileExistsError):
                os.mkfifo(path)
            self._line = os.open(path, os.O_RDWR)  # for writing, too: else it would be at its end before anybody writes

    def _wait(self, word: bytes) -> None:
        heard = LEAVE if (self._folder / "leave").exists() else b""
        if not heard and select.select([self._line], [], [], LONGEST_S)[0]:
            heard = os.read(self._line, 1)
        if heard != word:  # who has had no turn when all leave will have none
            raise TimeoutError(f"no turn in {self._folder}")


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
