"""A mesh of ranks, one of whose dimensions gets longer.

The ranks of a world are laid out row-major: the last dimension varies fastest. Along the dimension that is stretched,
coordinate c of the new mesh behaves as coordinate c mod extent of the old; copy k of an old rank is the one at its own
coordinate + k x extent, copy 0 the rank itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from prism.core.graph import Int64

LARGEST = 1 << 27
"""Rows that a column may get: 12 times the nodes of an iteration of 8,192 ranks, some 8 GiB in all columns."""


class NotExpandable(ValueError):
    """The graph does not tell what the job does at another extent, or that would be too large; the text says why."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A dimension, its old and its new extent, and how many ranks apart its neighbours are."""

    name: str
    extent: int
    to: int
    stride: int

    def coordinate(self, ranks: Int64) -> Int64:
        """Where old ranks lie along the dimension."""
        return ranks // self.stride % self.extent

    def copies(self, coordinate: Int64) -> Int64:
        """How many new coordinates behave as an old one."""
        return -(-(self.to - coordinate) // self.extent)

    def rank(self, ranks: Int64, copy: Int64) -> Int64:
        """The new ranks that are these copies of old ranks."""
        block, coordinate = ranks // (self.stride * self.extent), self.coordinate(ranks)
        return (block * self.to + coordinate + copy * self.extent) * self.stride + ranks % self.stride

    def original(self, ranks: Int64) -> tuple[Int64, Int64]:
        """The old rank that each new one behaves as, and which copy of it the new one is."""
        block, coordinate = ranks // (self.stride * self.to), ranks // self.stride % self.to
        copy, old = coordinate // self.extent, coordinate % self.extent
        return (block * self.extent + old) * self.stride + ranks % self.stride, copy


def stretch(mesh: Mapping[str, int], over: str, to: int, world_size: int) -> Stretch:
    """The stretch of a world's mesh (dimension to extent) along `over`; raises ValueError if they do not fit."""
    shape = " x ".join(f"{name} {extent}" for name, extent in mesh.items())
    if prod(mesh.values()) != world_size:
        raise ValueError(f"the mesh {shape} has {prod(mesh.values())} ranks, the world {world_size}")
    if over not in mesh:
        raise ValueError(f"the mesh has no dimension {over}, choose from {', '.join(mesh)}")
    names = list(mesh)
    extent = mesh[over]
    if to < extent:
        raise ValueError(f"{over} has extent {extent} and can only get longer, not {to}")
    if extent == 1 < to:
        raise ValueError(f"{over} has extent 1, which does not show what communicates along it; at least 2 does")
    return Stretch(over, extent, to, prod(mesh[name] for name in names[names.index(over) + 1 :]))


def refuse_too_large(rows: int, what: str) -> None:
    """Raise NotExpandable if so many rows are more than a graph may have."""
    if rows > LARGEST:
        raise NotExpandable(f"the job would have {rows:,} {what}, the most is {LARGEST:,}; choose a smaller extent")
