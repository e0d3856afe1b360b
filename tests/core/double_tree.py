"""NCCL's double binary tree in its plainest form: halves of halves, and the same in a mirror or moved on by one."""

from __future__ import annotations


def parents(nodes: int) -> list[list[int]]:
    """The parent of each node in both trees, -1 of the root: halves of halves, then a mirror or a shift."""
    parent = [-1] * nodes

    def halve(first: int, span: int, above: int) -> None:
        middle = first + span // 2
        if span < 2:
            return
        if middle < nodes:
            parent[middle] = above
            halve(first, span // 2, middle)
            halve(middle, span // 2, middle)
        else:
            halve(first, span // 2, above)

    halve(0, 1 << (nodes - 1).bit_length(), 0)
    place = [nodes - 1 - k if nodes % 2 == 0 else (k + 1) % nodes for k in range(nodes)]
    other = [-1] * nodes
    for node, above in enumerate(parent):
        other[place[node]] = place[above] if above >= 0 else -1
    return [parent, other]


def hops(parent: list[int], node: int) -> int:
    return 0 if parent[node] < 0 else 1 + hops(parent, parent[node])
