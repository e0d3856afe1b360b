"""The completer: a thread that does one thing after another, and hands them to a fresh one where it may have to wait.

Callbacks of futures run on it, and one that waits for a result would wait for the thread that it is on.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

NAME = "prism-completer"


class Completer:
    """Does what is put into it; `failed` hears what that raises, after which nothing more is done."""

    def __init__(self, do: Callable[[Any], None], failed: Callable[[BaseException], None]) -> None:
        self._do = do
        self._failed = failed
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None  # none until there is something to do

    def put(self, item: Any) -> None:
        """One more thing to do."""
        self._work.put(item)
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._start()

    @property
    def here(self) -> bool:
        """Whether this thread is one of its own, the present one or one that has handed over."""
        return threading.current_thread().name == NAME

    def hand_over(self) -> None:
        """If this is its thread, let a fresh one go on: this one is about to wait, or may be."""
        if threading.current_thread() is self._thread:
            self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while threading.current_thread() is self._thread:
                self._do(self._work.get())
        except BaseException as error:  # nobody would wait for this thread, and the program would wait for ever
            self._failed(error)
