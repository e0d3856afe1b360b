"""How long the program itself has computed: what its main thread does between what it says, less what PRISM does."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


class Stopwatch:
    """Runs while the main thread, the one that made it, is the program's; all times are in ns."""

    def __init__(self) -> None:
        self.slowdown = 1.0  # what the program's compute takes longer by: a fault
        self._main = threading.get_ident()
        self._resumed = time.monotonic_ns()
        self._arrived = 0

    def thread(self) -> int:
        """The thread of the program that this one counts as: it is itself."""
        return threading.get_ident()

    def is_program(self) -> bool:
        """Whether this thread is the program's."""
        return self.thread() == self._main

    def lap(self) -> int:
        """The ns that the main thread has computed since it was last resumed; 0 on other threads."""
        if not self.is_program():
            return 0
        if self.slowdown > 1:
            time.sleep((time.monotonic_ns() - self._resumed) * (self.slowdown - 1) / 1e9)
        return time.monotonic_ns() - self._resumed

    def arrive(self) -> None:
        """The program has called: what follows is not its own time, until it is resumed."""
        if self.is_program():
            self._arrived = self.lap()

    def arrived(self) -> int:
        """The ns that the main thread had computed when it last arrived; 0 on other threads."""
        return self._arrived if self.is_program() else 0

    def resume(self) -> None:
        """What follows is the program's own time again."""
        if self.is_program():
            self._resumed = time.monotonic_ns()

    def excuse(self, duration: int) -> None:
        """So many ns of the program's time were PRISM's."""
        if self.is_program():
            self._resumed += duration

    @contextlib.contextmanager
    def excused(self) -> Iterator[None]:
        """What happens inside is not the program's time, and what came before goes on afterwards."""
        start = time.monotonic_ns()
        try:
            yield
        finally:
            self.excuse(time.monotonic_ns() - start)
