"""torch.distributed's process group: each method says which bytes go in, which tensors come out, and posts.

The names and argument shapes are torch's (2.11 to 2.14; where a method was renamed both names are here). What the
methods have in common is one sentence: inputs are copied back to back into a payload, and the result's bytes fill the
outputs back to back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from prism.core.events import Call
from prism.core.graph import OpKind
from prism.core.matching import SELF_CONTAINED
from prism.gpu.link import Link
from prism.gpu.tensors import nbytes, pack
from prism.gpu.work import Batch, Work

Tensors = Sequence[torch.Tensor]

_REDUCES = {
    dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "avg", dist.ReduceOp.PRODUCT: "product", dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max", dist.ReduceOp.BAND: "band", dist.ReduceOp.BOR: "bor", dist.ReduceOp.BXOR: "bxor",
}  # fmt: skip


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """One group on one rank; `ranks` are the members' global ranks."""

    def __init__(self, link: Link, name: str, ranks: tuple[int, ...], rank: int, backend: str, label: str) -> None:
        super().__init__(rank, len(ranks))
        self._link = link
        self._name = name
        self._label = label  # what people call the group: torch's name, or "default"
        self._ranks = ranks
        self._me = rank
        self._backend = backend
        self._posted = 0
        self._coalesced: list[Work] | None = None
        link.join(label, ranks, backend)
        link.resume()

    # -- who we are --------------------------------------------------------------------------------------------------

    def getBackendName(self) -> str:
        return "prism"  # told "gloo", DDP's C++ logger would look for gloo's own object

    def getGroupName(self) -> str:
        return self._name

    @property
    def group_name(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._backend

    def _get_backend(self, device: torch.device) -> ProcessGroup:
        return self

    @property
    def supports_coalescing(self) -> bool:
        return False

    @property
    def supports_splitting(self) -> bool:
        return False

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _set_sequence_number_for_group(self) -> None:
        """Numbers count from the group's start anyway."""

    def _get_sequence_number_for_group(self) -> int:
        return self._posted

    def set_timeout(self, timeout: Any) -> None:
        """Waits that cannot end are found at once, whatever the time-out."""

    def shutdown(self) -> None:
        """Nothing is held."""

    def abort(self) -> None:
        """Nothing is held."""

    # -- collectives -------------------------------------------------------------------------------------------------

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Work:
        tensors = _listed(tensors)
        return self._post(OpKind.ALL_REDUCE, tensors, tensors, reduce=_reduce(opts))

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        return self._post(OpKind.ALL_REDUCE, tensors, tensors, reduce=_reduce(opts))

    def reduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Work:
        tensors = _listed(tensors)
        outputs = tensors if opts.rootRank == self._me else []
        return self._post(OpKind.REDUCE, tensors, outputs, reduce=_reduce(opts), root=opts.rootRank)

    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Work:
        tensors, root = _listed(tensors), opts.rootRank
        inputs = tensors if root == self._me else []
        outputs = [] if root == self._me else tensors
        return self._post(OpKind.BROADCAST, inputs, outputs, root=root, count=_count(tensors), like=tensors)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        outputs, inputs = outputs[0] if isinstance(outputs[0], list | tuple) else outputs, _listed(inputs)
        return self._post(OpKind.ALL_GATHER, inputs, outputs, recv=[t.numel() for t in outputs])

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        return self._post(OpKind.ALL_GATHER, [input], [output], recv=self._even(output.numel()))

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        blocks = [list(_blocks(output, self.size())) for output in outputs]
        by_rank = [block[r] for r in range(self.size()) for block in blocks]
        return self._post(OpKind.ALL_GATHER, inputs, by_rank, recv=self._even(_count(outputs)))

    def allgather_coalesced(self, output_lists: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        # torch gives one list for each rank here, each as long as the inputs.
        outputs = [tensor for tensors in output_lists for tensor in tensors]
        return self._post(OpKind.ALL_GATHER, inputs, outputs, recv=[_count(tensors) for tensors in output_lists])

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        at_root = opts.rootRank == self._me
        flat = list(outputs[0]) if at_root else []
        recv = [t.numel() for t in flat]
        return self._post(OpKind.GATHER, _listed(inputs), flat, root=opts.rootRank, recv=recv)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        outputs, at_root = _listed(outputs), opts.rootRank == self._me
        given = list(inputs[0]) if at_root else []
        count = _count(given if at_root else outputs)
        return self._post(OpKind.SCATTER, given, outputs, root=opts.rootRank, count=count, like=outputs)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        given = inputs[0] if isinstance(inputs[0], list | tuple) else inputs
        send = [t.numel() for t in given]
        return self._post(OpKind.REDUCE_SCATTER, given, _listed(outputs), reduce=_reduce(opts), send=send)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        send = self._even(input.numel())
        return self._post(OpKind.REDUCE_SCATTER, [input], [output], reduce=_reduce(opts), send=send)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        blocks = [list(_blocks(tensor, self.size())) for tensor in inputs]
        by_rank = [block[r] for r in range(self.size()) for block in blocks]
        send = self._even(_count(inputs))
        return self._post(OpKind.REDUCE_SCATTER, by_rank, outputs, reduce=_reduce(opts), send=send)

    def all_to_all_single(
        self, output: torch.Tensor, input: torch.Tensor, output_splits: Any, input_splits: Any, opts: Any = None
    ) -> Work:
        for tensor in (output, input):
            if not tensor.is_contiguous():
                raise ValueError("Tensors must be contiguous")
        send, recv = _splits(input, input_splits, self.size()), _splits(output, output_splits, self.size())
        return self._post(OpKind.ALL_TO_ALL, [input], [output], send=send, recv=recv)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        send, recv = [t.numel() for t in inputs], [t.numel() for t in outputs]
        return self._post(OpKind.ALL_TO_ALL, inputs, outputs, send=send, recv=recv)

    def barrier(self, opts: Any = None, timeout: Any = None) -> Work:
        return self._post(OpKind.BARRIER, [], [])

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        self.barrier().wait()

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # -- messages ----------------------------------------------------------------------------------------------------

    def send(self, tensors: Tensors, destination: int, tag: int = 0) -> Work:
        return self._post(OpKind.SEND_RECV, tensors, [], peer=destination, tag=tag, sends=True)

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> Work:
        count = _count(tensors)
        return self._post(OpKind.SEND_RECV, [], tensors, peer=source, tag=tag, count=count, like=tensors)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        return self.recv(tensors, -1, tag)

    # -- batches -----------------------------------------------------------------------------------------------------

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> Batch:
        works, self._coalesced = self._coalesced or [], None
        return Batch(self._link, works)

    # -- the one way in ----------------------------------------------------------------------------------------------

    def _post(
        self,
        kind: OpKind,
        inputs: Tensors,
        outputs: Tensors,
        *,
        like: Tensors = (),
        count: int | None = None,
        send: Sequence[int] = (),
        recv: Sequence[int] = (),
        **fields: Any,
    ) -> Work:
        compute = self._link.lap()
        tensors = like or inputs or outputs
        call = Call(
            kind=kind,
            dtype=_dtype(tensors) if tensors else "none",
            count=_count(inputs) if count is None else count,
            send=tuple(send),
            recv=tuple(recv),
            shape=tuple(tensors[0].shape) if len(tensors) == 1 else (),
            **fields,
        )
        payload = None
        if inputs:
            payload, room = self._link.room(nbytes(inputs), lasting=kind in SELF_CONTAINED)
            pack(inputs, room)
        work = Work(self._link, outputs, call.peer)
        work.handle = self._link.post(self._label, call, payload, work, compute)
        self._posted += 1
        if self._coalesced is not None:
            self._coalesced.append(work)
        self._link.resume()
        return work

    def _even(self, count: int) -> list[int]:
        return [count // self.size()] * self.size()


def _listed(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _count(tensors: Tensors) -> int:
    return sum(t.numel() for t in tensors)


def _blocks(tensor: torch.Tensor, size: int) -> tuple[torch.Tensor, ...]:
    return tensor.reshape(-1).chunk(size)


def _splits(tensor: torch.Tensor, splits: Any, size: int) -> list[int]:
    """Elements for each member, from torch's rows (none given: equal parts)."""
    rows = [int(n) for n in splits]
    if not rows:
        if tensor.shape[0] % size:
            raise ValueError(f"Tensor's dim 0 ({tensor.shape[0]}) does not divide equally across group size {size}")
        rows = [tensor.shape[0] // size] * size
    if sum(rows) != (tensor.shape[0] if tensor.dim() else 0):
        raise ValueError(f"Split sizes {rows} don't match total dim 0 size {tensor.shape[0]}")
    width = tensor.numel() // tensor.shape[0] if tensor.shape[0] else 0
    return [n * width for n in rows]


def _dtype(tensors: Tensors) -> str:
    kinds = list(dict.fromkeys(str(t.dtype).removeprefix("torch.") for t in tensors))
    if len(kinds) > 1:
        raise ValueError(f"tensors of one operation must have one dtype, got {', '.join(kinds)}")
    return kinds[0]


def _reduce(opts: Any) -> str:
    if opts is None:
        return "sum"
    op = getattr(opts, "reduceOp", opts)
    kind = getattr(op, "op", op)
    for known, name in _REDUCES.items():
        if kind == known:
            return name
    raise ValueError(f"reduction {kind} is not supported; choose one of {', '.join(_REDUCES.values())}")


Creator = Callable[[Any, Any], ProcessGroup]


def creator(link: Link, world: int, backend: str = "gloo") -> Creator:
    """What torch calls to make a group: (its options, the backend's) -> ProcessGroup."""

    def create(options: Any, backend_options: Any) -> ProcessGroup:
        ranks = tuple(options.global_ranks_in_group) or tuple(range(world))
        label = "default" if not options.global_ranks_in_group else str(options.group_id)
        return ProcessGroup(link, str(options.group_id), ranks, options.group_rank, backend, label)

    return create
