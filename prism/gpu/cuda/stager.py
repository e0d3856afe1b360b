"""The thread of a rank that brings inputs from the device to the payload store, in the order of their posts."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from prism.core.calls import Ref
from prism.gpu.cuda.copies import Copier
from prism.gpu.cuda.driver import Driver
from prism.net.payloads import Arena


@dataclass(frozen=True, slots=True)
class Input:
    """What an operation brings: tensors, times a factor, once a stream has passed an event; where it goes."""

    tensors: Sequence[torch.Tensor]
    factor: Any
    ready: Any
    stream: Any
    arena: Arena
    ref: Ref


class Stager:
    """One thread, made with its first input; `failed` hears what it raises."""

    def __init__(self, driver: Driver, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._copier = Copier(driver)
        self._due: queue.SimpleQueue[tuple[Input, Callable[[], None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, due: Input, done: Callable[[], None]) -> None:
        """Bring an input after those before it, then call `done`."""
        self._due.put((due, done))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="prism-stager", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        try:
            while True:
                self._bring(*self._due.get())
        except BaseException as error:  # ours: the others would wait for the input for ever
            self._failed(error)

    def _bring(self, due: Input, done: Callable[[], None]) -> None:
        due.stream.wait_event(due.ready)
        self._copier.save(due.tensors, due.arena, due.ref, due.stream, due.factor)
        done()
