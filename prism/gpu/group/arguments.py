"""What the arguments of torch.distributed's calls mean: which tensors, how many elements, how they are reduced."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from prism.gpu.meter.memory import uncounted

Tensors = Sequence[torch.Tensor]

_REDUCES = {
    dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "avg", dist.ReduceOp.PRODUCT: "product", dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max", dist.ReduceOp.BAND: "band", dist.ReduceOp.BOR: "bor", dist.ReduceOp.BXOR: "bxor",
    dist.ReduceOp.PREMUL_SUM: "sum",  # of inputs that were scaled before
}  # fmt: skip

CALLERS = 6
"""Frames in which torch's call of a message is found, from the communicator outwards."""
_AWAITING = frozenset(inspect.unwrap(call).__code__ for call in (dist.send, dist.recv))


def listed(tensors: Any) -> list[torch.Tensor]:
    """A list of tensors, of one or of several."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def count_of(tensors: Tensors) -> int:
    """How many elements they have together."""
    return sum(t.numel() for t in tensors)


def chunks(tensor: torch.Tensor, size: int) -> tuple[torch.Tensor, ...]:
    """The elements of a tensor in so many equal parts."""
    return tensor.reshape(-1).chunk(size)


def splits(tensor: torch.Tensor, splits: Any, size: int) -> list[int]:
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


def dtype_of(tensors: Tensors) -> str:
    """The one type that they have; raises ValueError if they have several."""
    kinds = list(dict.fromkeys(str(t.dtype).removeprefix("torch.") for t in tensors))
    if len(kinds) > 1:
        raise ValueError(f"tensors of one operation must have one dtype, got {', '.join(kinds)}")
    return kinds[0]


def is_awaited(*args: Any, **kwargs: Any) -> bool:
    """Whether torch waits for an operation as soon as it has posted it: the call's options tell, or who called."""
    opts = kwargs.get("opts", args[-1] if args else None)
    if (waits_not := getattr(opts, "asyncOp", None)) is not None:
        return not waits_not
    frame: FrameType | None = sys._getframe(1)
    for _ in range(CALLERS):
        if frame is None or frame.f_code in _AWAITING:
            break
        frame = frame.f_back
    return frame is not None and frame.f_code in _AWAITING


def premultiplier(opts: Any) -> Any:
    """PREMUL_SUM's factor, a number or a tensor; None for other reductions."""
    op = getattr(opts, "reduceOp", opts)
    if getattr(op, "op", op) != dist.ReduceOp.PREMUL_SUM:
        return None
    return op.__getstate__()[1]  # nothing else of torch tells it


@uncounted
def premultiplied(tensors: Tensors, factor: Any) -> Tensors:
    """The tensors times the factor, rounded to their type."""
    return [(tensor.data * factor).to(tensor.dtype) for tensor in tensors]


def reduction(opts: Any) -> str:
    """The reduction that a call asks for, by its name in the graph; raises ValueError if there is no such one."""
    if opts is None:
        return "sum"
    op = getattr(opts, "reduceOp", opts)
    kind = getattr(op, "op", op)
    for known, name in _REDUCES.items():
        if kind == known:
            return name
    raise ValueError(f"reduction {kind} is not supported; choose one of {', '.join(_REDUCES.values())}")
