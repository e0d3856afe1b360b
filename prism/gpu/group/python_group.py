"""The communicator as a process group written in Python: for a torch that the C++ backend was not built for.

What it lacks beside the C++ one: calls do not pass torch's dispatcher, so profilers do not see them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

from prism.gpu.group.communicator import Communicator
from prism.gpu.group.work import Batch, Operation

__all__ = ["Communicator", "ProcessGroup", "group", "wrap"]


class Work(dist.Work):
    """The work object of an operation."""

    def __init__(self, operation: Operation | Batch) -> None:
        super().__init__()
        self._operation = operation
        self._future: Future[list[torch.Tensor]] = Future()
        self._watched = False

    def complete(self, outputs: list[torch.Tensor]) -> None:
        self._future.set_result(outputs)

    def fail(self, reason: str) -> None:
        self._future.set_exception(RuntimeError(reason))  # type: ignore[arg-type]

    def done(self) -> bool:
        return self._future.done()

    def join(self) -> None:
        self._future.wait()

    def watched(self) -> bool:
        return self._watched

    def wait(self, timeout: Any = None) -> bool:
        self._operation.wait()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._future.done() or self._operation.poll()

    def is_success(self) -> bool:
        return self._future.done() and not self._operation.failure

    def exception(self) -> None:
        return None

    def get_future(self) -> Future[list[torch.Tensor]]:
        # As in the C++ backend: DDP's reducer waits for the future where nobody sees it, so its wait is made here.
        if torch._C._current_graph_task_id() != -1:
            torch.autograd.Variable._execution_engine.queue_callback(self._wait_in_backward)
        self._watched = True
        return self._future

    def result(self) -> list[torch.Tensor]:
        return self._operation.outputs

    def source_rank(self) -> int:
        return self._operation.source

    def _source_rank(self) -> int:
        return self._operation.source

    def _wait_in_backward(self) -> None:
        self.wait()


def wrap(operation: Operation | Batch) -> Work:
    """The work object of an operation."""
    work = Work(operation)
    operation.completion = work
    return work


def _forwarded(name: str) -> Callable[..., Any]:
    def method(self: ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.communicator, name)(*args, **kwargs)

    return method


class ProcessGroup(dist.ProcessGroup):
    """A communicator under the names that torch's Python code and its C++ trampolines call."""

    def __init__(self, communicator: Communicator) -> None:
        super().__init__(communicator.rank, len(communicator.ranks))  # type: ignore[call-arg]  # it takes these two as well
        self.communicator = communicator
        self._name = communicator.name

    allreduce = _forwarded("allreduce")
    allreduce_coalesced = _forwarded("allreduce_coalesced")
    reduce = _forwarded("reduce")
    broadcast = _forwarded("broadcast")
    allgather = _forwarded("allgather")
    allgather_coalesced = _forwarded("allgather_coalesced")
    all_gather_single = _allgather_base = _forwarded("all_gather_single")
    all_gather_single_coalesced = allgather_into_tensor_coalesced = _forwarded("all_gather_single_coalesced")
    gather = _forwarded("gather")
    scatter = _forwarded("scatter")
    reduce_scatter = _forwarded("reduce_scatter")
    reduce_scatter_single = _reduce_scatter_base = _forwarded("reduce_scatter_single")
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced = _forwarded("reduce_scatter_single_coalesced")
    all_to_all_single = alltoall_base = _forwarded("all_to_all_single")
    alltoall = _forwarded("alltoall")
    barrier = _forwarded("barrier")
    send = _forwarded("send")
    recv = _forwarded("recv")
    recv_anysource = _forwarded("recv_anysource")

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        self.communicator.barrier().wait()

    def _start_coalescing(self, device: torch.device) -> None:
        self.communicator.start_coalescing()

    def _end_coalescing(self, device: torch.device) -> Work:
        work: Work = self.communicator.end_coalescing()
        return work

    # -- who we are --------------------------------------------------------------------------------------------------

    def getBackendName(self) -> str:
        return "prism"  # told "gloo", DDP's C++ logger would look for gloo's own object

    def getGroupName(self) -> str:
        return self._name

    @property
    def group_name(self) -> Any:  # torch has a type of its own for names
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self.communicator.backend

    def _get_backend(self, device: torch.device) -> Any:  # to torch this group is its own backend
        return self

    supports_splitting = False

    @property
    def supports_coalescing(self) -> bool:
        return self.communicator.coalesces

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _set_sequence_number_for_group(self) -> None:
        """Numbers count from the group's start anyway."""

    @property
    def posted(self) -> int:
        return self.communicator.posted

    def set_timeout(self, timeout: Any) -> None:
        """Waits that cannot end are found at once, whatever the time-out."""

    def shutdown(self) -> None:
        """Nothing is held."""

    def abort(self) -> None:
        """Nothing is held."""


def group(communicator: Communicator, *_: Any) -> ProcessGroup:
    """What torch uses as the process group."""
    return ProcessGroup(communicator)
