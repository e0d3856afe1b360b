"""A bounded pool of payloads, read ahead of the operations that need them.

A thread reads them in the order in which they will be needed, as long as there is room. Who comes for one that is there
has a *hit*; who has to wait for the reading has a *stall*; one whose reading had not begun is read at once, room or
not, so that an order that turns out otherwise cannot stop the run: a *miss*.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Generic, TypeVar

from prism.core.calls import Ref
from prism.core.graph import Int64
from prism.gpu.emulation.buffers import Buffer
from prism.net.payloads import Library

HIT, MISS, STALL = range(3)

Need = TypeVar("Need")
"""What names one use of a payload."""


class Pool(Generic[Need]):
    """`needs`: each use and its payload, first to last; `capacity` in bytes; `counts` int64[3]: HIT, MISS, STALL."""

    def __init__(self, needs: Mapping[Need, Ref], capacity: int, library: Library, counts: Int64) -> None:
        self._ahead = dict(needs)  # not begun
        self._capacity = capacity
        self._library = library
        self._counts = counts
        self._held = 0  # bytes
        self._begun: dict[Need, tuple[Ref, Future[Buffer]]] = {}
        self._change = threading.Condition()
        threading.Thread(target=self._read_ahead, name="prism-prefetch", daemon=True).start()

    def take(self, need: Need) -> Buffer:
        """The payload's bytes; raises what reading it raised."""
        with self._change:
            begun = self._begun.get(need)
            kind = MISS if begun is None else HIT if begun[1].done() else STALL
            self._counts[kind] += 1
            ref, future = begun or self._begin(need)
        if kind == MISS:
            self._read(ref, future)
        return future.result()

    def release(self, need: Need) -> None:
        """This use is over."""
        with self._change:
            ref, _ = self._begun.pop(need)
            self._held -= ref.nbytes
            self._change.notify()

    def _begin(self, need: Need) -> tuple[Ref, Future[Buffer]]:
        ref = self._ahead.pop(need)
        self._begun[need] = ref, Future()
        self._held += ref.nbytes
        return self._begun[need]

    def _read(self, ref: Ref, future: Future[Buffer]) -> None:
        try:
            future.set_result(Buffer.over(self._library.read(ref)))
        except BaseException as error:
            future.set_exception(error)

    def _read_ahead(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(self._has_room)
                if not self._ahead:
                    return
                ref, future = self._begin(next(iter(self._ahead)))
            self._read(ref, future)

    def _has_room(self) -> bool:
        """Whether the next payload fits; one that is larger than the pool does when the pool is empty."""
        if not self._ahead:
            return True
        size = self._ahead[next(iter(self._ahead))].nbytes
        return self._held == 0 or self._held + size <= self._capacity
