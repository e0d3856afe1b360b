"""The communicator of a group whose tensors lie on a GPU: the allocations and streams of torch's NCCL backend.

What each call allocates on the device, on which stream it works and what it refuses is that of ProcessGroupNCCL in
torch 2.11, so that a rank's peak of memory is the real one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from prism.core.calls import Call, Ref
from prism.core.graph import OpKind
from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.link import CudaLink
from prism.gpu.cuda.operation import CudaOperation
from prism.gpu.cuda.stager import Input
from prism.gpu.cuda.stand_in import stand_in
from prism.gpu.group.arguments import premultiplier
from prism.gpu.group.communicator import Communicator
from prism.gpu.group.tensors import nbytes
from prism.gpu.group.work import Operation, Wrap

Tensors = Sequence[torch.Tensor]


class Inputs(list[torch.Tensor]):
    """Tensors that are to be multiplied by a factor on their way."""

    factor: Any = None


class Outputs(list[torch.Tensor]):
    """Tensors to fill; `unpack` follows on their stream, `token` is held beside them."""

    unpack: Callable[[], None] | None = None
    token: torch.Tensor | None = None


class CudaCommunicator(Communicator):
    """One group. Tensors of the host are treated as on a CPU."""

    _link: CudaLink

    def __init__(self, link: CudaLink, name: str, ranks: Sequence[int], rank: int, backend: str, wrap: Wrap) -> None:
        super().__init__(link, name, ranks, rank, backend, wrap)
        self._driver = link.driver
        self._own_stream: Any = None
        self._shelves: dict[OpKind, list[torch.Tensor]] = {}  # inputs that no wait() has given up

    @property
    def _stream(self) -> Any:
        """The group's stream, made when it is first needed."""
        if self._own_stream is None:
            self._own_stream = self._driver.stream()
        return self._own_stream

    # -- what differs from tensors of the host -----------------------------------------------------------------------

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        self._link.arrive()
        listed = outputs[0] if isinstance(outputs[0], list | tuple) else outputs
        if not self._even_on_device(listed):
            return super().allgather(outputs, inputs, opts)
        flat = _like_flat(listed)
        given = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
        into = Outputs([flat])
        into.unpack = functools.partial(_unpack, self._driver, flat, listed)
        return self._post(OpKind.ALL_GATHER, given, into, recv=[one.numel() for one in listed])

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        self._link.arrive()
        given = inputs[0] if isinstance(inputs[0], list | tuple) else inputs
        if not self._even_on_device(given):
            return super().reduce_scatter(outputs, inputs, opts)
        flat = _like_flat(given)
        posted = self._driver.mark(self._driver.current())
        self._stream.wait_event(posted)
        with self._driver.on(self._stream):
            for place, tensor in enumerate(given):
                flat[place].copy_(tensor, non_blocking=True)
        return super().reduce_scatter(outputs, [list(flat.unbind())], opts)

    def barrier(self, opts: Any = None, timeout: Any = None) -> Any:
        device = getattr(opts, "device", None)
        if self.backend != "nccl" or (device is not None and device.type == "cpu"):
            return super().barrier(opts, timeout)
        self._link.arrive()
        into = Outputs()
        into.token = self._driver.token()
        return self._post(OpKind.BARRIER, [], into)

    def end_coalescing(self) -> Any:
        with self._driver.on(self._stream):  # it may be done already, and then its future belongs to this stream
            return super().end_coalescing()

    # -- the one way in ----------------------------------------------------------------------------------------------

    def _carry(self, call: Call, inputs: Tensors, outputs: Tensors) -> tuple[Ref | None, Operation]:
        token = outputs.token if isinstance(outputs, Outputs) else None
        held = [*inputs] if token is None else [token]
        if not any(self._driver.holds(tensor) for tensor in (*held, *outputs)):
            return super()._carry(call, inputs, outputs)
        self._refuse([*held, *outputs])
        operation = self._link.operation(self._stream, held, outputs, call)
        operation.unpack = outputs.unpack if isinstance(outputs, Outputs) else None
        operation.drains = token is not None
        operation.shelf = self._emptied_shelf(call.kind)
        return self._input(call, inputs, operation), operation

    def _emptied_shelf(self, kind: OpKind) -> list[torch.Tensor]:
        """Where inputs go of operations whose future alone was waited for, without those that lay there.

        In reality a watchdog finds them done some time, and the next collective gives them up. Which one that is
        depends on times; here it is the next of the same kind. So DDP's first bucket outlives the making of the others.
        """
        shelf = self._shelves.setdefault(kind, [])
        shelf.clear()
        return shelf

    def _input(self, call: Call, inputs: Tensors, operation: CudaOperation) -> Ref | None:
        """The place of the input, which is brought there once the operation is posted."""
        size = nbytes(inputs)
        if not inputs or self._link.answered:
            return None
        arena, ref = self._link.reserve(size, self._lasts(call, inputs))
        if size:
            factor = inputs.factor if isinstance(inputs, Inputs) else None
            operation.staged = False
            operation.due = Input(inputs, factor, operation.posted, self._stream, arena, ref)
        return ref

    def _stand_in(self, call: Call, inputs: Tensors, outputs: Tensors) -> Callable[[], None]:
        if any(self._driver.holds(tensor) for tensor in (*inputs, *outputs)):
            return functools.partial(stand_in, self._driver, call, self.rank, inputs, outputs)
        return super()._stand_in(call, inputs, outputs)

    def _on_device(self, tensor: torch.Tensor) -> bool:
        return self._driver.holds(tensor)

    def _scaled(self, tensors: Tensors, opts: Any) -> Tensors:
        """As they are: what PREMUL_SUM multiplies them by is done on their way, for NCCL allocates nothing for it."""
        factor = premultiplier(opts)
        if factor is None or not any(self._driver.holds(tensor) for tensor in tensors):
            return super()._scaled(tensors, opts)
        scaled = Inputs(tensors)
        scaled.factor = factor.item() if isinstance(factor, torch.Tensor) else factor
        return scaled

    def _even_on_device(self, tensors: Tensors) -> bool:
        same = len({one.shape for one in tensors}) == 1
        return same and self._driver.holds(tensors[0])

    def _refuse(self, tensors: Tensors) -> None:
        """Raise what NCCL's process group raises for tensors that it does not take."""
        if self._driver.capturing():
            raise RuntimeError(
                "a collective inside a CUDA graph cannot be carried out here yet: its bytes go through the host; "
                "keep it outside the graph, or run without graphs"
            )
        for tensor in tensors:
            if not self._driver.holds(tensor):
                raise ValueError("Tensors must be CUDA and dense")
            if not tensor.is_contiguous(memory_format=_format(tensor)):
                raise ValueError("Tensors must be contiguous")


def _like_flat(tensors: Tensors) -> torch.Tensor:
    """Room for equal tensors back to back, as torch's newLikeFlat gives it."""
    first = tensors[0]
    return torch.empty((len(tensors), *first.shape), dtype=first.dtype, device=first.device)


def _unpack(driver: Driver, flat: torch.Tensor, tensors: Tensors) -> None:
    for place, tensor in enumerate(tensors):
        driver.copy(tensor.data, flat[place])


def _format(tensor: torch.Tensor) -> torch.memory_format:
    """The memory format in which a tensor is dense, if it is in any."""
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    if tensor.dim() == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d):
        return torch.channels_last_3d
    return torch.contiguous_format
