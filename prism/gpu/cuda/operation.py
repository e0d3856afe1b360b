"""A posted operation on tensors of a device: stream-ordered as one of torch's NCCL backend is.

The input is read once the stream of the post has come to the post, the outputs are filled on the communicator's own
stream, and a wait lets the current stream wait for that. As there, inputs are held until the program has waited.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from prism.core.calls import Ref
from prism.gpu.cuda.device_link import DeviceLink
from prism.gpu.cuda.stager import Input
from prism.gpu.group.work import Operation


class CudaOperation(Operation):
    """One operation; `stream` is its communicator's, `payload` the place of its input, where it has one."""

    def __init__(
        self,
        link: DeviceLink,
        stream: Any,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        source: int = -1,
        room: Sequence[int] = (),
    ) -> None:
        super().__init__(link, outputs, source, room)
        self.stash: list[torch.Tensor] = [*inputs]  # or the allocator would give their memory to others too soon
        self.shelf: list[torch.Tensor] | None = None  # where inputs go that no wait() gives up
        self.drains = False  # whether who waits for it waits on the host too, as for a barrier
        self.due: Input | None = None  # to be brought once it is posted
        self.unpack: Callable[[], None] | None = None  # what follows once the outputs are filled, on their stream
        self._device_link = link
        self._driver = link.driver
        self._stream = stream
        self._posted = self._driver.mark(self._driver.current())
        self._filled: Any = None  # the event after the outputs were filled
        self._enqueued = threading.Event()

    @property
    def posted(self) -> Any:
        """The event of the post, on the stream of the post."""
        return self._posted

    @property
    def watched(self) -> bool:
        """Its future belongs to its stream, and is completed apart from the program."""
        return True

    def begin(self) -> None:
        """It has been posted: let the input be brought."""
        self._device_link.note(self.handle)
        if self.due is not None:
            self._device_link.bring(self.due, self.handle)
            self.due = None

    def deliver(self, result: Ref | None, blocks: tuple[int, ...] = (), source: int = -1) -> None:
        """Let the outputs be filled after the post, and complete the future on that stream."""

        def fill() -> None:
            if result is not None:
                self._device_link.fill(result, blocks, self.outputs, self.room, self._stream)

        self._end(fill, source)

    def done(self) -> bool:
        """Whether the result is on its way on the stream."""
        return self._enqueued.is_set()

    def join(self) -> None:
        """Return when the result is on its way on the stream."""
        self._enqueued.wait()

    def wait_for_future(self) -> None:
        """Wait in the place of torch, which has no work object by then; nobody gives the inputs up."""
        shelved, self.stash = self.stash, []
        self.wait()
        if self.shelf is not None:
            self.shelf += shelved

    def arrive(self) -> None:
        """The program has waited: its stream waits for the result, and the inputs are let go."""
        if self._filled is not None:
            self._driver.current().wait_event(self._filled)
        self.stash.clear()
        self._device_link.forget(self.handle)
        self._device_link.passed()
        if self.drains:
            self._driver.drain()
        super().arrive()

    def _end(self, fill: Callable[[], None], source: int) -> None:
        def fill_after_the_post() -> None:
            self._stream.wait_event(self._posted)
            try:
                fill()
                if self.unpack is not None:
                    self.unpack()
            finally:
                self._filled = self._driver.mark(self._stream)
                self._enqueued.set()

        with self._driver.on(self._stream):  # a future that is completed here belongs to this stream
            super()._end(fill_after_the_post, source)
