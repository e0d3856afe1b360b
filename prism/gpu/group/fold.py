"""The arithmetic of an operation once all members have posted: sums in ring order, and the moving of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from prism.core.calls import Ref
from prism.core.contribution import Part
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.instructions import Fold
from prism.core.ring import chunks, order
from prism.exhaustion import room_in
from prism.gpu.group.tensors import save, view
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

Home = Callable[[int], Arena]
"""Where a result of so many bytes belongs."""

WHOLE = Part("rest", -1, 0)
"""The sum that leaves nobody out."""


def fold(due: Fold, library: Library, home: Home) -> tuple[tuple[Ref, ...], tuple[Ref, ...]]:
    """Do what the instruction says; returns one result for all members, or one for each, and the partial sums."""
    if due.routes:
        return tuple(_join(parts, library, home) for parts in due.routes), ()
    inputs = [ref for ref in due.inputs if ref is not None]
    if due.kind in (OpKind.ALL_GATHER, OpKind.GATHER):
        return (_join(inputs, library, home),), ()
    if due.kind is OpKind.ALL_TO_ALL:
        blocks = _blocks(inputs, due.splits, ITEMSIZE[due.dtype])
        return tuple(_join(of, library, home) for of in blocks), ()
    pieces = _pieces(due, inputs[0].nbytes // ITEMSIZE[due.dtype], len(inputs))
    dtype: torch.dtype = getattr(torch, due.dtype)
    floats = dtype.is_floating_point or dtype.is_complex
    native = due.reduce in NATIVE_REDUCES and due.dtype in NATIVE_DTYPES and (floats or due.reduce != "avg")
    sums = _native_sums if native and _fold is not None else sums_in_torch
    result, *partial = sums(due.reduce, dtype, inputs, pieces, due.parts, library, home(inputs[0].nbytes))
    return (result,), tuple(partial)


def _join(parts: Sequence[Ref], library: Library, home: Home) -> Ref:
    return home(sum(ref.nbytes for ref in parts)).join(parts, library)


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
    reduce: str,
    dtype: torch.dtype,
    inputs: Sequence[Ref],
    pieces: list[Piece],
    parts: Sequence[Part],
    library: Library,
    arena: Arena,
) -> list[Ref]:
    result, *partial = (arena.reserve(inputs[0].nbytes) for _ in range(1 + len(parts)))
    with room_in(arena.directory, inputs[0].nbytes):
        _fold.fold(
            rows=[(library.descriptor(ref), ref.offset) for ref in inputs],
            out=(arena.descriptor, result.offset),
            pieces=pieces,
            parts=[
                ((arena.descriptor, ref.offset), _places(part, pieces, len(inputs)), part.left_out)
                for ref, part in zip(partial, parts, strict=True)
            ],
            dtype=dtype,
            reduce="sum" if reduce == "avg" else reduce,
            factor=1.0 / len(inputs) if reduce == "avg" else 1.0,  # as NCCL: floats are scaled before they are added
        )
    return [result, *partial]


def _places(part: Part, pieces: list[Piece], size: int) -> list[tuple[int, int]]:
    places = (part.places(owner, size) for _, _, owner in pieces)
    return [(of.start, of.stop) for of in places]


def sums_in_torch(
    reduce: str,
    dtype: torch.dtype,
    inputs: Sequence[Ref],
    pieces: list[Piece],
    parts: Sequence[Part],
    library: Library,
    arena: Arena,
) -> list[Ref]:
    """The same by torch's operators, for all types and reductions; every step is rounded to the tensors' type."""
    rows = [view(library.read(ref), dtype) for ref in inputs]
    floats = dtype.is_floating_point or dtype.is_complex
    if reduce == "avg" and floats:
        for row in rows:
            torch.mul(row, 1.0 / len(rows), out=row)
    sums = [_sum(reduce, rows, pieces, part) for part in (WHOLE, *parts)]
    if reduce == "avg" and not floats:  # and integers are divided afterwards
        torch.div(sums[0], len(rows), rounding_mode="trunc", out=sums[0])
    return [save([total], arena) for total in sums]


def _sum(reduce: str, rows: Sequence[torch.Tensor], pieces: list[Piece], part: Part) -> torch.Tensor:
    """The sum of those rows that the part holds; zero where there are none."""
    total, size = torch.zeros_like(rows[0]), len(rows)
    for start, stop, owner in pieces:
        turns, out = order(owner, size), total[start:stop]
        members = (turns[place] for place in part.places(owner, size))
        for number, member in enumerate(m for m in members if m not in part.left_out):
            row = rows[member][start:stop]
            if number == 0:
                out.copy_(row)
            else:
                _COMBINE[reduce](out, row, out=out)
    return total
