"""Which of the paths to a post can never be the longest, whatever the sandbox ranks do.

A post comes at the latest of end(a) + W(a) over its roots a. Root a is *dominated* by a later root b if end(b) is
guaranteed to come so long after end(a), by G(a, b), that b always gives at least as much: W(a) <= G(a, b) + W(b). What
is guaranteed of the end of an op: it comes its cost after each of its virtual posts, and its cost after the end of the
op before it in its channel. Of sandbox ranks nothing is: they may compute in no time, and a message that one of them
has sent may be over for it before it has ended.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prism.core.emulation.virtual_paths import ANY, NONE
from prism.core.graph import Int64

SPAN = 2048
"""How many roots back guarantees are kept: 16 KiB a root. A root that is dominated is so by one that is close."""


class Guarantees:
    """The least time from the end of each root to the end of each later one, in ns; roots are told in order."""

    def __init__(self, roots: int) -> None:
        self._least = np.full((roots, min(roots, SPAN)), NONE)  # root b, b - a
        self._least[:, 0] = 0

    def between(self, earlier: Int64, later: int) -> Int64:
        """G(a, b) for several a, below ANY where nothing is guaranteed."""
        back = later - earlier
        known = back < self._least.shape[1]
        return np.where(known, self._least[later, np.where(known, back, 0)], NONE)

    def tell(self, root: int, before: Int64, after: Int64, prev: int, cost: int) -> None:
        """The end of a root: `cost` after each end(before[i]) + after[i] and after the end of prev (0: nothing), ns."""
        least = self._least[root]
        for earlier, ns in [*zip(before.tolist(), after.tolist(), strict=True), (prev, 0)]:
            back = root - earlier
            if back < len(least):
                np.maximum(least[back:], self._least[earlier, : len(least) - back] + ns, out=least[back:])
        least[1:] += cost


def undominated(lengths: Int64, roots: Int64, guarantees: Guarantees) -> npt.NDArray[np.bool_]:
    """Which paths may be the longest, bool[roots, posts]; lengths: int64[roots, posts] ns, roots ascending."""
    kept = lengths > ANY
    alive = np.arange(len(roots))
    for row in range(len(roots) - 1, 0, -1):
        alive = alive[alive < row]
        if not kept[row].any():
            continue
        least = guarantees.between(roots[alive], int(roots[row]))
        checked = alive[least > ANY]
        shorter = lengths[checked] <= lengths[row] + least[least > ANY, None]
        kept[checked] &= ~(shorter & kept[row])
        alive = alive[kept[alive].any(axis=1)]
    return kept
