"""A stand-in for torch's NCCL group, which makes of each call what torch's own does: those of a FakeDevice."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from prism.core.graph import OpKind
from prism.gpu._backend import Work
from prism.gpu.emulation.buffers import Buffer
from prism.gpu.emulation.device.planned import CARRIED_AS, Partner
from prism.gpu.group.arguments import reduction
from prism.gpu.pruned import Op


class Job:
    """What a FakeGroup's work object asks: done once a thread has run it."""

    source = -1

    def __init__(self, futures: Sequence[Future[None]], outputs: Sequence[torch.Tensor] = ()) -> None:
        self.outputs = list(outputs)
        self._futures = futures

    def work(self) -> Work:
        work = Work(self)
        threading.Thread(target=self._complete, args=(work,), daemon=True).start()
        return work

    def _complete(self, work: Work) -> None:
        for future in self._futures:
            future.exception()
        work.complete(self.outputs)

    def wait(self) -> None:
        for future in self._futures:
            future.result()

    def wait_for_future(self) -> None:
        self.wait()

    def poll(self) -> bool:
        return all(future.done() for future in self._futures)


def _in_line(method: Callable[..., Any]) -> Callable[..., Any]:
    """For a collective: without `asyncOp` it is over when it returns, and nothing is left to wait for."""

    @functools.wraps(method)
    def post(self: FakeGroup, *given: Any) -> Any:
        work = method(self, *given)
        if given[-1].asyncOp:
            return work
        work.wait()
        return None

    return post


class FakeGroup:
    """ProcessGroupNCCL, under the names that the C++ backend calls; made of what torch's own is made of."""

    coalesces, posted = True, 0

    def __init__(self, device: Any, store: Any, rank: int, size: int, options: Any) -> None:
        self._device, self._store, self._rank, self._size, self.options = device, store, rank, size, options
        self._serial = ThreadPoolExecutor(1)
        self._batch: list[Future[None]] | None = None
        self._names: dict[str, str] = {}

    @_in_line
    def allreduce(self, tensors: Any, opts: Any) -> Any:
        return self._ring(OpKind.ALL_REDUCE, tensors[0], tensors[0], tensors[0].numel(), reduction(opts))

    @_in_line
    def broadcast(self, tensors: Any, opts: Any) -> Any:
        return self._ring(OpKind.BROADCAST, tensors[0], tensors[0], tensors[0].numel(), "none", opts.rootRank)

    @_in_line
    def reduce(self, tensors: Any, opts: Any) -> Any:
        return self._ring(OpKind.REDUCE, tensors[0], tensors[0], tensors[0].numel(), reduction(opts), opts.rootRank)

    @_in_line
    def all_gather_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        return self._ring(OpKind.ALL_GATHER, tensor, output, tensor.numel())

    @_in_line
    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        return self._ring(OpKind.REDUCE_SCATTER, tensor, output, tensor.numel(), reduction(opts))

    @_in_line
    def allreduce_coalesced(self, tensors: Any, opts: Any) -> Any:
        self.start_coalescing()
        for tensor in tensors:
            self._ring(OpKind.ALL_REDUCE, tensor, tensor, tensor.numel(), reduction(opts))
        return self.end_coalescing()

    @_in_line
    def all_gather_single_coalesced(self, outputs: Any, tensors: Any, opts: Any) -> Any:
        self.start_coalescing()
        for output, tensor in zip(outputs, tensors, strict=True):
            self._ring(OpKind.ALL_GATHER, tensor, output, tensor.numel())
        return self.end_coalescing()

    @_in_line
    def reduce_scatter_single_coalesced(self, outputs: Any, tensors: Any, opts: Any) -> Any:
        self.start_coalescing()
        for output, tensor in zip(outputs, tensors, strict=True):
            self._ring(OpKind.REDUCE_SCATTER, tensor, output, tensor.numel(), reduction(opts))
        return self.end_coalescing()

    @_in_line
    def allgather(self, outputs: Any, tensors: Any, opts: Any) -> Any:
        if len({one.shape for one in outputs[0]}) == 1:
            flat = torch.empty(sum(one.numel() for one in outputs[0]), dtype=tensors[0].dtype)
            work = self._ring(OpKind.ALL_GATHER, tensors[0], flat, tensors[0].numel())
            work.wait()
            for one, part in zip(outputs[0], flat.chunk(self._size), strict=True):
                one.copy_(part.view_as(one))
            return work
        outputs[0][self._rank].copy_(tensors[0])
        works = [
            self._ring(OpKind.BROADCAST, one, one, one.numel(), "none", root) for root, one in enumerate(outputs[0])
        ]
        return works[-1]

    @_in_line
    def barrier(self, opts: Any) -> Any:
        token = torch.zeros(1)
        return self._ring(OpKind.ALL_REDUCE, token, token, 1, "sum")

    @_in_line
    def all_to_all_single(self, output: Any, tensor: Any, out_splits: Any, in_splits: Any, opts: Any) -> Any:
        gets = output.split(list(out_splits) or [output.shape[0] // self._size] * self._size)
        gives = tensor.split(list(in_splits) or [tensor.shape[0] // self._size] * self._size)
        return self._pairs(OpKind.ALL_TO_ALL, gives, gets)

    @_in_line
    def alltoall(self, outputs: Any, tensors: Any, opts: Any) -> Any:
        return self._pairs(OpKind.ALL_TO_ALL, tensors, outputs)

    @_in_line
    def gather(self, outputs: Any, tensors: Any, opts: Any) -> Any:
        none = [torch.empty(0)] * self._size
        gives = [tensors[0] if member == opts.rootRank else none[0] for member in range(self._size)]
        return self._pairs(OpKind.GATHER, gives, outputs[0] if self._rank == opts.rootRank else none)

    @_in_line
    def scatter(self, outputs: Any, tensors: Any, opts: Any) -> Any:
        none = [torch.empty(0)] * self._size
        gets = [outputs[0] if member == opts.rootRank else none[0] for member in range(self._size)]
        return self._pairs(OpKind.SCATTER, tensors[0] if self._rank == opts.rootRank else none, gets)

    def send(self, tensors: Any, peer: int, tag: int) -> Any:
        return self._message(tensors[0], peer, True)

    def recv(self, tensors: Any, peer: int, tag: int) -> Any:
        return self._message(tensors[0], peer, False)

    def start_coalescing(self) -> None:
        self._batch = []

    def end_coalescing(self) -> Any:
        batch, self._batch = self._batch, None
        return Job(batch or []).work()

    # -- how ---------------------------------------------------------------------------------------------------------

    def _ring(self, kind: OpKind, source: Any, target: Any, count: int, reduce: str = "none", root: int = -1) -> Any:
        dtype = str(source.dtype).removeprefix("torch.")
        carried, numbers = CARRIED_AS.get(dtype, (dtype, 1))
        now = Op(kind, self._size, carried, "max" if dtype == "bool" else reduce, root, count * numbers)
        run = self._device.collective(self._named("0"), now, _flat(source), _flat(target))
        return self._run(run, self._serial, [target])

    def _pairs(self, kind: OpKind, gives: Sequence[Any], gets: Sequence[Any]) -> Any:
        if gives[self._rank].numel() and gets[self._rank].numel():
            gets[self._rank].copy_(gives[self._rank])
        group, given = self._named("0"), []
        for sends, tensors in ((True, gives), (False, gets)):
            for peer, tensor in enumerate(tensors):
                if peer != self._rank and tensor.numel():
                    buffer = _flat(tensor)
                    given.append((Partner(peer, sends, buffer.nbytes), buffer))
        return self._run(self._device.messages(group, kind, given), self._serial, gets)

    def _message(self, tensor: Any, peer: int, sends: bool) -> Any:
        low, high = sorted((self._rank, peer))
        group = self._named("0" if self._batch is not None else f"{low}:{high}")
        buffer = _flat(tensor)
        run = self._device.messages(group, OpKind.SEND_RECV, [(Partner(peer, sends, buffer.nbytes), buffer)])
        return self._run(run, ThreadPoolExecutor(1), [tensor])

    def _run(self, run: Callable[[], None], threads: ThreadPoolExecutor, outputs: Sequence[torch.Tensor]) -> Any:
        future = threads.submit(run)
        if self._batch is not None:
            self._batch.append(future)
        return Job([future], outputs).work()

    def _named(self, key: str) -> str:
        """The engine's name for a communicator, whose id goes through the store as torch's do."""
        if key not in self._names:
            first = int(key.partition(":")[0])
            if self._rank == first:
                self._store.set(key, os.urandom(128))
            group, members = self._device.identified[self._store.get(key)]
            assert self._rank in members
            self._names[key] = group
        return self._names[key]


def _flat(tensor: torch.Tensor) -> Buffer:
    assert tensor.is_contiguous()
    size = tensor.numel() * tensor.element_size()
    return Buffer(tensor.data_ptr(), size, tensor)
