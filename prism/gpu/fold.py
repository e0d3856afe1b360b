"""The arithmetic of an operation once all members have posted: sums in ring order, and the moving of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from prism.core.events import Fold, Ref
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.ring import chunks, order
from prism.gpu.tensors import view
from prism.net.payloads import Arena, Library

try:
    from prism.gpu import _fold
except ImportError:  # not built for this torch: torch's own operators do the same, slower
    _fold = None  # type: ignore[assignment]

NATIVE_REDUCES = frozenset({"sum", "product", "min", "max"})
NATIVE_DTYPES = frozenset({
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
})  # fmt: skip
_COMBINE: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.add, "product": torch.mul, "min": torch.minimum, "max": torch.maximum,
    "band": torch.bitwise_and, "bor": torch.bitwise_or, "bxor": torch.bitwise_xor,
}  # fmt: skip


def fold(due: Fold, library: Library, arena: Arena) -> tuple[Ref, ...]:
    """Do what the instruction says; returns one result for all members, or one for each, in `arena`."""
    inputs = [library.read(ref) if ref is not None else memoryview(b"") for ref in due.inputs]
    if due.kind in (OpKind.ALL_GATHER, OpKind.GATHER):
        return (_join(inputs, arena),)
    if due.kind is OpKind.ALL_TO_ALL:
        return _exchange(inputs, due.splits, ITEMSIZE[due.dtype], arena)
    return (_reduce(due, inputs, arena),)


def _join(inputs: Sequence[memoryview], arena: Arena) -> Ref:
    ref, out = arena.put(sum(len(data) for data in inputs))
    at = 0
    for data in inputs:
        out[at : at + len(data)] = data
        at += len(data)
    return ref


def _exchange(
    inputs: Sequence[memoryview], splits: Sequence[Sequence[int]], itemsize: int, arena: Arena
) -> tuple[Ref, ...]:
    size = len(inputs)
    starts = [[sum(row[:to]) * itemsize for to in range(size)] for row in splits]
    results = []
    for to in range(size):
        blocks = [inputs[i][starts[i][to] : starts[i][to] + splits[i][to] * itemsize] for i in range(size)]
        results.append(_join(blocks, arena))
    return tuple(results)


def _reduce(due: Fold, inputs: Sequence[memoryview], arena: Arena) -> Ref:
    dtype: torch.dtype = getattr(torch, due.dtype)
    ref, out = arena.put(len(inputs[0]))
    result, rows = view(out, dtype), [view(data, dtype) for data in inputs]
    size = len(rows)
    for start, stop, owner in _pieces(due, result.numel(), size):
        fold_rows(due.reduce, [rows[i][start:stop] for i in order(owner, size)], result[start:stop])
    return ref


def _pieces(due: Fold, count: int, size: int) -> list[tuple[int, int, int]]:
    """Which elements are summed starting from whom: (start, stop, owner); the owner's input comes last."""
    if due.kind is OpKind.REDUCE:
        return [(0, count, due.root)]
    if due.kind is OpKind.ALL_REDUCE:
        return list(chunks(count, ITEMSIZE[due.dtype], size))
    row, pieces, at = due.splits[0], [], 0  # reduce_scatter: each member owns its shard
    for owner, length in enumerate(row):
        pieces.append((at, at + length, owner))
        at += length
    return pieces


def fold_rows(reduce: str, rows: Sequence[torch.Tensor], out: torch.Tensor) -> None:
    """out = ((x0 + x1) + x2) + ..., each step rounded to the tensors' type; flat tensors of one type and length."""
    if reduce == "avg" and out.dtype.is_floating_point:
        # As NCCL: floats are scaled before they are added, integers divided afterwards.
        rows = [torch.mul(row, 1.0 / len(rows), out=_scratch(row)) for row in rows]
    adds = "sum" if reduce == "avg" else reduce
    if _fold is not None and adds in NATIVE_REDUCES and out.dtype in NATIVE_DTYPES:
        _fold.fold(out, list(rows), adds)
    else:
        out.copy_(rows[0])
        for row in rows[1:]:
            _COMBINE[adds](out, row, out=out)
    if reduce == "avg" and not out.dtype.is_floating_point:
        torch.div(out, len(rows), rounding_mode="trunc", out=out)


def _scratch(like: torch.Tensor) -> torch.Tensor:
    """Room for a tensor that the memory meter does not see."""
    if not like.numel():
        return torch.empty_like(like)
    return torch.frombuffer(bytearray(like.numel() * like.element_size()), dtype=like.dtype)
