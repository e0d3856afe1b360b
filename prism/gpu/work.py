"""The handle of a posted operation, as torch.distributed's callers know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

from prism.gpu.link import Link
from prism.gpu.tensors import unpack


class Work(dist.Work):  # type: ignore[misc]
    """One posted operation; `outputs` are filled, in order, with the bytes of its result."""

    def __init__(self, link: Link, outputs: Sequence[torch.Tensor], source: int = -1) -> None:
        super().__init__()
        self._link = link
        self._outputs = list(outputs)
        self._source = source
        self._future: Future[list[torch.Tensor]] = Future()
        self.handle = 0

    def deliver(self, result: memoryview | None) -> None:
        """Copy the result and complete the future; its callbacks run here."""
        try:
            if result is not None:
                unpack(result, self._outputs)
        except BaseException as error:
            self._future.set_exception(error)  # type: ignore[arg-type]
            return
        self._future.set_result(self._outputs)

    def done(self) -> bool:
        """Whether the result is there."""
        return self._future.done()

    def join(self) -> None:
        """Return when the result is there."""
        self._future.wait()

    # -- what torch calls --------------------------------------------------------------------------------------------

    def wait(self, timeout: Any = None) -> bool:
        self._link.wait((self.handle,))
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._link.poll(self.handle)

    def is_success(self) -> bool:
        return self._future.done()

    def exception(self) -> None:
        return None

    def get_future(self) -> Future[list[torch.Tensor]]:
        # Inside a backward pass it is DDP's reducer that asks, and it will wait for the future where nobody sees it.
        # A callback queued now runs before the reducer's own, so the wait happens here, and is recorded.
        if torch._C._current_graph_task_id() != -1:
            torch.autograd.Variable._execution_engine.queue_callback(self._wait_in_backward)
        return self._future

    def result(self) -> list[torch.Tensor]:
        return self._outputs

    def source_rank(self) -> int:
        return self._source

    def _source_rank(self) -> int:
        return self._source

    def _wait_in_backward(self) -> None:
        self.wait()


class Batch(dist.Work):  # type: ignore[misc]
    """Several operations behind one handle, as coalescing gives them."""

    def __init__(self, link: Link, works: Sequence[Work]) -> None:
        super().__init__()
        self._link = link
        self._works = list(works)

    def wait(self, timeout: Any = None) -> bool:
        self._link.wait(tuple(work.handle for work in self._works))
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def get_future(self) -> Future[Any]:
        return torch.futures.collect_all([work.get_future() for work in self._works])
