"""The arithmetic of an operation once all members have posted: sums in ring order, and the moving of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from prism.core.events import Fold, Ref
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.ring import chunks, order
from prism.gpu.tensors import view
from prism.net.payloads import Arena, Library

_COMBINE: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.add, "avg": torch.add, "product": torch.mul, "min": torch.minimum, "max": torch.maximum,
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
        _fold_piece(due.reduce, [rows[i][start:stop] for i in order(owner, size)], result[start:stop])
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


def _fold_piece(reduce: str, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> None:
    """out = ((x0 + x1) + x2) + ..., each step rounded to the tensors' type."""
    combine, size = _COMBINE[reduce], len(inputs)
    if reduce == "avg" and out.dtype.is_floating_point:
        # As NCCL: floats are scaled before they are added, integers divided afterwards.
        scratch = torch.frombuffer(bytearray(out.numel() * out.element_size()), dtype=out.dtype)
        torch.mul(inputs[0], 1.0 / size, out=out)
        for row in inputs[1:]:
            torch.mul(row, 1.0 / size, out=scratch)
            torch.add(out, scratch, out=out)
        return
    out.copy_(inputs[0])
    for row in inputs[1:]:
        combine(out, row, out=out)
    if reduce == "avg":
        torch.div(out, size, rounding_mode="trunc", out=out)
