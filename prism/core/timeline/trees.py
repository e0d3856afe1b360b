"""What an all_reduce costs along two trees: NCCL's double binary tree over the nodes, with a chain inside each node.

Each tree carries half of the data, chunk by chunk: sums go up to its root, results come down. In the binary trees over
K nodes a root is ceil(log2 K) hops away at most; a node that has two children in one tree is a leaf in the other, so
that no node sends or receives more than four halves. Inside a node each member hangs below the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism.core.graph import Graph, Int64


@dataclass(frozen=True, slots=True)
class Nodes:
    """How the members of groups lie on nodes, a row a group."""

    count: Int64  # nodes
    longest: Int64  # members of the group on the node that has most


@dataclass(frozen=True, slots=True)
class TreeTraffic:
    """What along two trees the longest way takes, and the busiest member moves; a row an op."""

    inside: Int64  # steps from member to member of a node
    between: Int64  # steps from node to node
    nbytes: Int64  # between nodes, or inside the one that there is


def nodes_of(ranks: tuple[int, ...], ranks_per_node: int) -> list[int]:
    """The node of each member of a group: rank r is on node r // ranks_per_node."""
    return [rank // ranks_per_node for rank in ranks]


def group_nodes(graph: Graph, ranks_per_node: int) -> Nodes:
    """How each group of a graph lies on nodes."""
    counts = [np.unique(nodes_of(group.ranks, ranks_per_node), return_counts=True)[1] for group in graph.groups]
    return Nodes(
        count=np.array([len(members) for members in counts], np.int64),
        longest=np.array([max(members) for members in counts], np.int64),
    )


def tree_traffic(nodes: Nodes, size: Int64, chunk: int) -> TreeTraffic:
    """The steps and bytes of ops; `size`: one member's input in bytes, `chunk`: what is handed on at a time.

    The first chunk passes all hops, up and down; the rest follows at full bandwidth.
    """
    inside = 2 * (nodes.longest - 1)
    # ceil(log2 n) as the number of n in a list of powers, so that no floating point is in it.
    between = 2 * np.searchsorted(2 ** np.arange(40), nodes.count)
    # The busiest of three nodes is between the two others in one tree, of two each is above the other in one; inside
    # a node all but the ends of the chain are between two others in both trees.
    halves = np.where(nodes.count > 1, np.minimum(nodes.count, 4), np.where(nodes.longest > 2, 4, 2))
    filling = (inside + between - 2) * np.minimum(-(-size // 2), chunk)
    return TreeTraffic(inside, between, -(-halves * size // 2) + filling)
