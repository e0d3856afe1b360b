"""The shape of a folded world: which ranks run, and for which others each of them stands.

The ranks are laid out row-major on a mesh, the last dimension varies fastest. Along some dimensions all ranks behave
alike: the job looks the same from each of them, so moving every rank by the same *shift* along these dimensions, round
their ends, changes nothing. Of each class of ranks that such moves take into each other one runs, its *representative*:
the rank at coordinate 0 of every folded dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from prism.core.graph import Int64

Shift = tuple[int, ...]
"""How far along each folded dimension, in the order of the mesh."""


@dataclass(frozen=True)
class Folding:
    """A mesh (dimension to extent) and the dimensions that are folded; raises ValueError if they do not fit."""

    mesh: Mapping[str, int]
    over: Sequence[str]

    def __post_init__(self) -> None:
        if bad := [name for name, extent in self.mesh.items() if extent < 1]:
            raise ValueError(f"dimension {bad[0]} has extent {self.mesh[bad[0]]}, expected at least 1")
        if strange := [name for name in self.over if name not in self.mesh]:
            raise ValueError(f"the mesh has no dimension {strange[0]}, choose from {', '.join(self.mesh)}")

    @cached_property
    def world_size(self) -> int:
        """All ranks, those that run and those that do not."""
        return prod(self.mesh.values())

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """The folded dimensions, in the order of the mesh."""
        return tuple(name for name in self.mesh if name in self.over)

    @cached_property
    def extents(self) -> Shift:
        """Of the folded dimensions."""
        return tuple(self.mesh[name] for name in self.dimensions)

    @cached_property
    def strides(self) -> Shift:
        """How many ranks apart neighbours are along each folded dimension."""
        names = list(self.mesh)
        return tuple(prod(self.mesh[after] for after in names[names.index(name) + 1 :]) for name in self.dimensions)

    @cached_property
    def copies(self) -> int:
        """For how many ranks each representative stands, itself included."""
        return prod(self.extents)

    @cached_property
    def representatives(self) -> tuple[int, ...]:
        """The ranks that run, ascending."""
        ranks = np.arange(self.world_size)
        return tuple(np.flatnonzero((self.coordinates(ranks) == 0).all(axis=-1)).tolist())

    def shift(self, rank: int) -> Shift:
        """How far a rank is from its representative."""
        pairs = zip(self.strides, self.extents, strict=True)
        return tuple(rank // stride % extent for stride, extent in pairs)

    def representative(self, rank: int) -> int:
        """The rank that runs for this one."""
        return rank - sum(at * stride for at, stride in zip(self.shift(rank), self.strides, strict=True))

    def moved(self, rank: int, shift: Shift) -> int:
        """The rank that lies so far from another, round the ends of the dimensions."""
        rows = zip(self.shift(rank), shift, self.extents, self.strides, strict=True)
        return self.representative(rank) + sum((at + by) % extent * stride for at, by, extent, stride in rows)

    def coordinates(self, ranks: Int64) -> Int64:
        """Where ranks lie along the folded dimensions, int64[ranks, dimensions]."""
        found: Int64 = ranks[..., None] // np.array(self.strides, np.int64) % np.array(self.extents, np.int64)
        return found

    def offset(self, coordinates: Int64) -> Int64:
        """How far coordinates, within the extents, are from the representative, in ranks; the last axis goes."""
        apart: Int64 = coordinates @ np.array(self.strides, np.int64)
        return apart
