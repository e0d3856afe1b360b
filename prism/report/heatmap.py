"""The communication matrix as a picture: senders as rows, receivers as columns, darker where more bytes go."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from prism.core.graph import Graph, Int64
from prism.core.timeline.matrix import communication_matrix
from prism.report import units

MAX_PLACES = 64
LEVELS = 6
_LEFT, _TOP = 58, 40  # margins in px: labels of the senders, of the receivers
_SIDE = 400  # px at most, unless that makes cells too small to see
_SMALLEST, _LARGEST = 6, 40  # px of a cell


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Everything that the template draws, in px; `kind` says what a row is."""

    kind: str
    side: int
    cell: int
    left: int
    top: int
    shapes: list[str]  # path data, by level
    labels: list[tuple[float, str]]  # middle of a row or column
    rules: list[int]  # between nodes
    least: int  # bytes
    most: int
    total: int
    busiest: tuple[str, str]  # sender and receiver of most


def draw_heatmap(graph: Graph, ranks_per_node: int) -> Heatmap | None:
    """Lay out the bytes between ranks, or above MAX_PLACES ranks between nodes or sets of them; None if none move."""
    per_place = _ranks_per_place(graph.world_size, ranks_per_node)
    moved = communication_matrix(graph, np.arange(graph.world_size) // per_place)
    if not moved.any():
        return None
    cell = int(np.clip(_SIDE // len(moved), _SMALLEST, _LARGEST))
    names = _names(graph.world_size, per_place, ranks_per_node)
    every = -(-16 // cell)  # 16 px is the height of a line of text, and the width of two digits
    sender, receiver = divmod(int(moved.argmax()), len(moved))
    nodes = range(0, graph.world_size, ranks_per_node) if 1 == per_place < ranks_per_node else ()
    return Heatmap(
        kind="rank" if per_place == 1 else "node" if per_place == ranks_per_node else "nodes",
        side=cell * len(moved),
        cell=cell,
        left=_LEFT,
        top=_TOP,
        shapes=_shapes(moved, cell),
        labels=[((row + 0.5) * cell, names[row]) for row in range(0, len(moved), every)],
        rules=[low * cell for low in nodes][1:],
        least=int(moved[moved > 0].min()),
        most=int(moved.max()),
        total=int(moved.sum()),
        busiest=(names[sender], names[receiver]),
    )


def _ranks_per_place(world_size: int, ranks_per_node: int) -> int:
    if world_size <= MAX_PLACES:
        return 1
    nodes = -(-world_size // ranks_per_node)
    return ranks_per_node * -(-nodes // MAX_PLACES)


def _names(world_size: int, per_place: int, ranks_per_node: int) -> list[str]:
    """Numbers of ranks or nodes; of several nodes the first and the last."""
    if per_place == 1:
        return [str(rank) for rank in range(world_size)]
    bounds = [*range(0, world_size, per_place), world_size]
    return [
        units.rank_ranges(range(low // ranks_per_node, -(-high // ranks_per_node))) for low, high in pairwise(bounds)
    ]


def _shapes(moved: Int64, cell: int) -> list[str]:
    """One path a level. Levels are steps of a logarithm, as gradients and control messages differ by magnitudes."""
    logs = np.log(np.maximum(moved, 1))
    low, high = logs[moved > 0].min(), logs.max()
    level = np.full(moved.shape, LEVELS - 1)
    if high > low:
        level = np.minimum(((logs - low) / (high - low) * LEVELS).astype(np.int64), LEVELS - 1)
    paths: list[list[str]] = [[] for _ in range(LEVELS)]
    for row, column in np.argwhere(moved > 0).tolist():
        paths[level[row, column]].append(f"M{column * cell} {row * cell}h{cell - 1}v{cell - 1}h{1 - cell}z")
    return ["".join(path) for path in paths]
