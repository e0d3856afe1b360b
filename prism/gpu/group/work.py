"""A posted operation on its rank: which tensors its result fills, and the future that tells when it has."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from prism.core.calls import Ref
from prism.gpu.rank.link import Link


class Completion(Protocol):
    """What an operation needs of the object that torch's callers hold."""

    def complete(self, outputs: list[torch.Tensor]) -> None:
        """Mark it done; callbacks run here."""

    def fail(self, reason: str) -> None:
        """Mark it failed; callbacks run here."""

    def done(self) -> bool:
        """Whether it is done or has failed."""

    def join(self) -> None:
        """Return when it is done; raises what it failed with."""

    def watched(self) -> bool:
        """Whether anybody has asked for its future."""


class Operation:
    """One posted operation; `outputs` are filled, in order, with the bytes of its result."""

    staged = True  # whether its input is there when it is posted
    settled = False  # whether its result is made up as it is posted, and none is awaited
    in_stream = False  # whether the current stream waits for it, and not the host

    def __init__(self, link: Link, outputs: Sequence[torch.Tensor], source: int = -1, room: Sequence[int] = ()) -> None:
        self.outputs = list(outputs)
        self.source = source
        self.room = room  # elements awaited from each member
        self.handle = 0
        self.failure = ""  # why the result is not in the outputs
        self.batch: Batch | None = None
        self.completion: Completion | None = None  # let go of when done: whoever holds it holds this
        self.stand_in: Callable[[], None] | None = None  # fills the outputs where nobody has kept the result
        self._link = link

    def deliver(self, result: Ref | None, blocks: tuple[int, ...] = (), source: int = -1) -> None:
        """Copy the result (in blocks that do not fill their room, where given) and complete the future."""
        if result is None:
            self._end(lambda: None, source)
        else:
            self._end(functools.partial(self._link.load, result, blocks, self.outputs, self.room), source)

    def synthesise(self, source: int = -1) -> None:
        """Make up a result and complete the future."""
        assert self.stand_in is not None, f"operation {self.handle}: what would stand in for its result is not known"
        self._end(self.stand_in, source)

    def _end(self, fill: Callable[[], None], source: int) -> None:
        self.source = source if source >= 0 else self.source
        completion = self.completion
        assert completion is not None, f"operation {self.handle} is delivered twice"
        try:
            fill()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            completion.fail(self.failure)
        else:
            completion.complete(self.outputs)
        self.completion = self.stand_in = None
        if self.batch is not None:
            self.batch.one_done()

    def done(self) -> bool:
        """Whether the result is there."""
        completion = self.completion
        return completion is None or completion.done()

    def join(self) -> None:
        """Return when the result is there."""
        completion = self.completion
        if completion is not None:
            completion.join()

    def wait(self) -> None:
        """Wait as the program does: said to the coordinator, and recorded; raises what the operation failed with."""
        self._link.wait((self.handle,), self.in_stream)
        self.arrive()

    def wait_for_future(self) -> None:
        """Wait in the place of torch, which waits for the future at the end of a backward pass."""
        self.wait()

    @property
    def watched(self) -> bool:
        """Whether callbacks may run when it is done."""
        holders = (self.completion, self.batch.completion) if self.batch is not None else (self.completion,)
        return any(holder is None or holder.watched() for holder in holders)

    def begin(self) -> None:
        """It has been posted: do what is left to do of its input."""

    def arrive(self) -> None:
        """The program has waited, and gets the result; raises what the operation failed with."""
        if self.failure:
            raise RuntimeError(self.failure)

    def poll(self) -> bool:
        """Ask as the program does: where it is not done, others run first."""
        return self._link.poll(self.handle)


class Batch:
    """Several operations behind one work object, as coalescing gives them; filled, then closed."""

    source = -1

    def __init__(self, link: Link, number: int) -> None:
        self.number = number
        self.outputs: list[torch.Tensor] = []
        self.completion: Completion | None = None
        self._link = link
        self._operations: list[Operation] = []
        self._unfinished = 1  # the one is for the batch itself, until it is closed
        self._lock = threading.Lock()

    def add(self, operation: Operation) -> None:
        """Take in an operation that is about to be posted."""
        operation.batch = self
        self._operations.append(operation)
        self.outputs += operation.outputs
        with self._lock:
            self._unfinished += 1

    def one_done(self) -> None:
        """An operation of the batch is done, or the batch is closed; the last one completes the batch."""
        with self._lock:
            self._unfinished -= 1
            last = self._unfinished == 0
        if last:
            completion, self.completion = self.completion, None
            assert completion is not None, "a batch is closed once, after its work object was made"
            if self.failure:
                completion.fail(self.failure)
            else:
                completion.complete(self.outputs)

    @property
    def failure(self) -> str:
        """Why a result of the batch is not in its outputs."""
        return next((operation.failure for operation in self._operations if operation.failure), "")

    def wait(self) -> None:
        """Wait for all of them, as the program does."""
        handles = tuple(operation.handle for operation in self._operations)
        self._link.wait(handles, all(operation.in_stream for operation in self._operations))
        for operation in self._operations:
            operation.arrive()

    def wait_for_future(self) -> None:
        """As for an operation."""
        self.wait()

    def poll(self) -> bool:
        """Whether all of them are done; where one is not, others run first."""
        return all(operation.poll() for operation in self._operations)


Wrap = Callable[[Operation | Batch], Any]
"""Makes the work object that torch's callers get, and sets the completion of what it wraps."""
