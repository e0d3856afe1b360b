"""Which member of a group hangs below which in the two trees of an all_reduce: the shape that ext/nccl builds.

Over the nodes a binary tree, in which node 0 is the root and odd nodes are leaves, and its mirror (moved on by a node
if their number is odd); inside each node a chain, in both.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from prism.core.graph import Int64


def tree_links(nodes: list[int]) -> Int64:
    """Child and parent of each link of both trees, int64[2 * (members - 1), 2]; `nodes`: the node of each member."""
    chains: dict[int, list[int]] = {}
    for member, node in enumerate(nodes):
        chains.setdefault(node, []).append(member)
    inside = [(below, above) for chain in chains.values() for above, below in pairwise(chain)]
    first = [chain[0] for chain in chains.values()]
    count = len(first)
    second = first[::-1] if count % 2 == 0 else first[1:] + first[:1]
    between = [(head[k], head[_above(k, count)]) for head in (first, second) for k in range(1, count)]
    return np.array([*inside, *inside, *between], np.int64).reshape(-1, 2)


def _above(k: int, count: int) -> int:
    """The node above node k > 0 of so many."""
    bit = k & -k
    above = (k ^ bit) | bit << 1
    return above if above < count else k ^ bit
