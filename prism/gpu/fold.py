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

NATIVE_REDUCES = frozenset({"sum", "avg", "product", "min", "max"})
NATIVE_DTYPES = frozenset({
    "float32", "float64", "float16", "bfloat16", "bool", "uint8", "int8", "int16", "int32", "int64",
})  # fmt: skip
_COMBINE: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.add, "avg": torch.add, "product": torch.mul, "min": torch.minimum, "max": torch.maximum,
    "band": torch.bitwise_and, "bor": torch.bitwise_or, "bxor": torch.bitwise_xor,
}  # fmt: skip

Piece = tuple[int, int, int]
"""Elements from, to, and the owner: the member whose input comes last in their sum."""


def fold(due: Fold, library: Library, arena: Arena) -> tuple[Ref, ...]:
    """Do what the instruction says; returns one result for all members, or one for each, in `arena`."""
    inputs = [ref for ref in due.inputs if ref is not None]
    if due.kind in (OpKind.ALL_GATHER, OpKind.GATHER):
        return (arena.join(inputs, library),)
    if due.kind is OpKind.ALL_TO_ALL:
        return tuple(arena.join(blocks, library) for blocks in _blocks(inputs, due.splits, ITEMSIZE[due.dtype]))
    pieces = _pieces(due, inputs[0].nbytes // ITEMSIZE[due.dtype], len(inputs))
    dtype: torch.dtype = getattr(torch, due.dtype)
    floats = dtype.is_floating_point or dtype.is_complex
    native = due.reduce in NATIVE_REDUCES and due.dtype in NATIVE_DTYPES and (floats or due.reduce != "avg")
    sums = _native_sums if native and _fold is not None else sums_in_torch
    return (sums(due.reduce, dtype, inputs, pieces, library, arena),)


def _blocks(inputs: Sequence[Ref], splits: Sequence[Sequence[int]], itemsize: int) -> list[list[Ref]]:
    """For each member, what the others send it, by sender."""
    members = range(len(inputs))
    starts = [[sum(row[:to]) * itemsize for to in members] for row in splits]
    return [[inputs[i].part(starts[i][to], splits[i][to] * itemsize) for i in members] for to in members]


def _pieces(due: Fold, count: int, size: int) -> list[Piece]:
    """Which elements are summed starting from whom."""
    if due.kind is OpKind.REDUCE:
        return [(0, count, due.root)]
    if due.kind is OpKind.ALL_REDUCE:
        return list(chunks(count, ITEMSIZE[due.dtype], size))
    row, pieces, at = due.splits[0], list[Piece](), 0  # reduce_scatter: each member owns its shard
    for owner, length in enumerate(row):
        pieces.append((at, at + length, owner))
        at += length
    return pieces


def _native_sums(
    reduce: str, dtype: torch.dtype, inputs: Sequence[Ref], pieces: list[Piece], library: Library, arena: Arena
) -> Ref:
    result = arena.reserve(inputs[0].nbytes)
    _fold.fold(
        rows=[(library.descriptor(ref), ref.offset) for ref in inputs],
        out=(arena.descriptor, result.offset),
        pieces=pieces,
        dtype=dtype,
        reduce="sum" if reduce == "avg" else reduce,
        factor=1.0 / len(inputs) if reduce == "avg" else 1.0,  # as NCCL: floats are scaled before they are added
    )
    return result


def sums_in_torch(
    reduce: str, dtype: torch.dtype, inputs: Sequence[Ref], pieces: list[Piece], library: Library, arena: Arena
) -> Ref:
    """The same by torch's operators, for all types and reductions; every step is rounded to the tensors' type."""
    rows = [view(library.read(ref), dtype) for ref in inputs]
    data = bytearray(inputs[0].nbytes)
    result, size = view(data, dtype), len(rows)
    floats = dtype.is_floating_point or dtype.is_complex
    if reduce == "avg" and floats:
        for row in rows:
            torch.mul(row, 1.0 / size, out=row)
    for start, stop, owner in pieces:
        first, *others = order(owner, size)
        out = result[start:stop]
        out.copy_(rows[first][start:stop])
        for member in others:
            _COMBINE[reduce](out, rows[member][start:stop], out=out)
    if reduce == "avg" and not floats:  # and integers are divided afterwards
        torch.div(result, size, rounding_mode="trunc", out=result)
    return arena.put([data] if data else [], len(data))
