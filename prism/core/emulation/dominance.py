"""Which of the paths to a point can never be the longest, whatever the sandbox ranks do.

A point comes at the latest of value(a) + W(a) over the roots a of its paths. Root a is *dominated* by a later root b if
b is guaranteed to come so long after a, by G(a, b), that its path always gives at least as much: W(a) <= G(a, b) +
W(b). What is guaranteed: an end comes its cost after each of its virtual posts, and its cost after the end of the op
before it in its channel; a relay comes when its paths say. Of sandbox ranks nothing is: they may compute in no time,
and a message that one of them has sent may be over for it before it has ended.

Only what is guaranteed of two roots by themselves is looked up, not what follows by way of a third: that one mostly is
a root of the same point, and one that is dominated itself dominates as well.
"""

from __future__ import annotations

import numpy as np

from prism.core.emulation.growing import Growing
from prism.core.emulation.paths import Mask, Paths
from prism.core.graph import Int64
from prism.core.levels import ranges

NEAR = 8
"""With how many later roots of the same point a root is compared. One that is dominated is so by one that is close."""


class Guarantees:
    """The least time from one root to another where a path or a channel leads from the one to the other, in ns."""

    def __init__(self, prev: Int64, cost: Int64) -> None:
        """Of each point, as in VirtualPoints."""
        self._prev = prev
        self._cost = cost
        self._pair = Growing()  # later root times points, plus earlier root; ascending from one that there is not
        self._least = Growing()
        self._pair.append(np.array([-1]))
        self._least.append(np.array([0]))

    def tell(self, roots: Int64, paths: Paths) -> None:
        """Roots, ascending and later than all told of before, with all paths to them that may be the longest."""
        ends = roots[self._prev[roots] >= 0]
        after_prev = Paths(ends, self._prev[ends], np.zeros_like(ends))
        least = Paths.joined([paths, after_prev]).longest(len(self._prev))
        self._pair.append(least.point * len(self._prev) + least.root)
        self._least.append(least.ns + self._cost[least.point])

    def undominated(self, paths: Paths) -> Mask:
        """Which of these paths, sorted by point, then by root, may be the longest to their point."""
        row = np.arange(len(paths.ns))
        later = np.minimum(np.searchsorted(paths.point, paths.point, side="right") - row - 1, NEAR)
        early, late = np.repeat(row, later), ranges(row + 1, row + 1 + later)
        pair = paths.root[late] * len(self._prev) + paths.root[early]
        at = np.searchsorted(self._pair.values, pair, side="right") - 1
        told = self._pair.values[at] == pair
        early, late, at = early[told], late[told], at[told]
        kept = np.ones(len(row), np.bool_)
        kept[early[paths.ns[early] <= self._least.values[at] + paths.ns[late]]] = False
        return kept
