"""The communicator of a group whose operations torch's own NCCL group carries out: what is posted is told, no more."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch

from prism.core.calls import Call
from prism.core.graph import OpKind
from prism.gpu.emulation.device.link import DeviceLink, Fate
from prism.gpu.emulation.device.told import Told
from prism.gpu.group.arguments import Tensors
from prism.gpu.group.communicator import Communicator
from prism.gpu.group.work import Operation, Wrap

IN_LINE = (
    "allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather", "all_gather_single",
    "all_gather_single_coalesced", "allgather_coalesced", "gather", "scatter", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_single_coalesced", "all_to_all_single", "alltoall", "barrier",
)  # fmt: skip
"""What NCCL's group puts into the program's own stream, if it is not asked for a work object to wait for."""


class DeviceCommunicator(Communicator):
    """One group. The C++ backend hands each call on to the `carrier` once it has been told here."""

    _link: DeviceLink

    def __init__(self, link: DeviceLink, name: str, ranks: Sequence[int], rank: int, backend: str, wrap: Wrap) -> None:
        super().__init__(link, name, ranks, rank, backend, wrap)
        self._together: Told | None = None  # what is posted as one batch
        self._number = 0  # of that batch

    @property
    def carried(self) -> bool:
        """Whether NCCL carries out what is posted here; else it is as on a CPU."""
        return self.backend == "nccl"

    @property
    def batching(self) -> bool:
        return self._together is not None or super().batching

    def carrier(self, options: Any = None, timeout: timedelta | None = None) -> Any:
        """A new NCCL group of the same members."""
        return self._link.carriers.make(self.name, self.ranks, options, timeout)

    def start_coalescing(self) -> None:
        """What is posted from here on is one batch."""
        if not self.carried:
            super().start_coalescing()
            return
        self._together, self._number = Told(self._link, in_stream=True), self._link.next_batch()

    def end_coalescing(self) -> Any:
        """All that was posted since."""
        if not self.carried:
            return super().end_coalescing()
        together, self._together, self._number = self._together, None, 0
        assert together is not None, "torch ends only batches that it has begun"
        return together

    def _posted(self, call: Call, inputs: Tensors, outputs: Tensors, compute: int) -> Any:
        if not self.carried:
            return super()._posted(call, inputs, outputs, compute)
        self._refuse_host(inputs, outputs)
        self._watch_threads()
        operation = Operation(self._link, outputs)
        operation.in_stream = self._in_stream(inputs, outputs)
        accepted = self._link.post_on_device(self.name, call, compute, self._number, operation)
        operation.handle = accepted.handle
        self.posted += 1
        if self._together is not None:
            self._together.add(accepted, outputs)
        if accepted.fate is Fate.CARRIED:
            return Told(self._link, operation.in_stream).add(accepted, outputs)
        work = self._wrap(operation)
        if accepted.fate is Fate.EMPTY:
            keep_own(call, self.rank, inputs, outputs)
            operation.deliver(None)
        self._link.resume()
        return work

    def _on_device(self, tensor: torch.Tensor) -> bool:
        return self._link.driver.holds(tensor)

    def _scaled(self, tensors: Tensors, opts: Any) -> Tensors:
        """As they are: NCCL multiplies them on their way."""
        return tensors if self.carried else super()._scaled(tensors, opts)

    def _refuse_host(self, *given: Tensors) -> None:
        """Raise for tensors of the host, with what to do about them."""
        for tensor in (one for tensors in given for one in tensors):
            if not self._link.driver.holds(tensor):
                raise ValueError(
                    f"Tensors must be CUDA and dense: one of the host on group {self.name}, which is emulated on a "
                    "GPU; give tensors of the host a group of their own, of backend gloo"
                )


def _noting(name: str) -> Callable[..., Any]:
    """The method of this name, which says of a collective in line that the program waits for it then and there."""
    plain = getattr(DeviceCommunicator, name)

    @functools.wraps(plain)
    def post(self: DeviceCommunicator, *given: Any) -> Any:
        told = plain(self, *given)
        if isinstance(told, Told):
            told.at_once = not given[-1].asyncOp and not self.batching
        return told

    return post


for _name in IN_LINE:
    setattr(DeviceCommunicator, _name, _noting(_name))


def keep_own(call: Call, member: int, inputs: Tensors, outputs: Tensors) -> None:
    """What is left of an operation in which no member gets anything from another: a member's block for itself."""
    if call.kind is not OpKind.ALL_TO_ALL or not call.send[member]:
        return
    if len(inputs) > 1:
        outputs[member].copy_(inputs[member])
        return
    (given,), (got,) = inputs, outputs
    own = given.reshape(-1)[sum(call.send[:member]) :][: call.send[member]]
    got.view(-1)[sum(call.recv[:member]) :][: call.recv[member]].copy_(own)
