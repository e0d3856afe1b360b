"""Folding tensors in tests: a store to fold in, and inputs that show in which order they were added."""

from __future__ import annotations

import weakref
from pathlib import Path

import torch

from prism.core.calls import Ref
from prism.core.graph import OpKind
from prism.core.instructions import Fold
from prism.gpu.group.fold import fold
from prism.gpu.group.tensors import load, save
from prism.net.payloads import Arena, Library

COUNT, RANKS = 1003, 5


class Store:
    """An arena and whoever reads it."""

    def __init__(self, directory: Path) -> None:
        self.arena = Arena(directory, "rank-0")
        self.library = Library(directory)
        for part in (self.arena, self.library):
            weakref.finalize(self, part.close)  # there is a store in hundreds of tests

    def fold(self, kind: OpKind, rows: list[torch.Tensor], reduce: str = "sum", **fields: object) -> list[torch.Tensor]:
        """The results of an operation whose members bring these tensors, and behind them its partial sums."""
        dtype = str(rows[0].dtype).removeprefix("torch.")
        inputs = tuple(save([row], self.arena) for row in rows)
        given = {"reduce": reduce, "root": -1, **fields}
        due = Fold(rank=0, op=0, kind=kind, dtype=dtype, inputs=inputs, **given)
        results, parts = fold(due, self.library, lambda nbytes: self.arena)
        return [self._tensor(ref, rows[0].dtype) for ref in (*results, *parts)]

    def _tensor(self, ref: Ref, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty(ref.nbytes // dtype.itemsize, dtype=dtype)
        load(ref, self.library, [out])
        return out


def rows(dtype: torch.dtype, count: int = COUNT, size: int = RANKS) -> list[torch.Tensor]:
    """Inputs of all ranks, wild enough that the order of additions shows."""
    torch.manual_seed(3)
    if dtype.is_floating_point:
        return [(torch.randn(count) * 10 ** torch.randint(-2, 3, (count,))).to(dtype) for _ in range(size)]
    return [torch.randint(0, 2 if dtype == torch.bool else 9, (count,)).to(dtype) for _ in range(size)]


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit for bit; one NaN is as good as another."""
    if a.is_floating_point():
        return bool(torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num()))
    return torch.equal(a, b)
