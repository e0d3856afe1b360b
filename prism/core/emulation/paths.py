"""Longest paths as rows of a table: from which root to which point, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prism.core.graph import Int64

Mask = npt.NDArray[np.bool_]


class Paths(NamedTuple):
    """Paths, a row each: the point they lead to, the root they come from, and how long they take, ns."""

    point: Int64
    root: Int64
    ns: Int64

    @classmethod
    def joined(cls, parts: Sequence[Paths]) -> Paths:
        """The rows of several tables."""
        none = cls(*np.zeros((3, 0), np.int64))
        return cls(*(np.concatenate(column) for column in zip(none, *parts, strict=True)))

    def where(self, chosen: Mask) -> Paths:
        """Some of the rows."""
        return Paths(self.point[chosen], self.root[chosen], self.ns[chosen])

    def longest(self, points: int) -> Paths:
        """Of all from one root to one point the longest, sorted by point, then by root; both are below `points`."""
        key = self.point * points + self.root
        order = np.argsort(key, kind="stable")
        key = key[order]
        starts = firsts(key)
        point, root = np.divmod(key[starts], points)
        return Paths(point, root, np.maximum.reduceat(self.ns[order], starts) if len(key) else self.ns)


def firsts(values: Int64) -> Int64:
    """Where each run of equal values begins."""
    new = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return np.flatnonzero(new)
