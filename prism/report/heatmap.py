"""The communication matrix as a picture: senders as rows, receivers as columns, darker where more bytes go."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from prism.core.graph import Graph, Int64
from prism.core.timeline.matrix import Trees, communication_matrix
from prism.report import units

MAX_PLACES = 64
LEVELS = 6
STEP = 4
"""From one level to the next."""
MAX_PAIRS = 8
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
    pairs: list[tuple[str, str, int]]  # sender, receiver and bytes of most

    @property
    def busiest(self) -> tuple[str, str]:
        """Sender and receiver of most."""
        return self.pairs[0][:2]


def draw_heatmap(graph: Graph, ranks_per_node: int, trees: Trees | None = None) -> Heatmap | None:
    """Lay out the bytes between ranks, or above MAX_PLACES ranks between nodes or sets of them; None if none move."""
    per_place = _ranks_per_place(graph.world_size, ranks_per_node)
    moved = communication_matrix(graph, np.arange(graph.world_size) // per_place, trees)
    if not moved.any():
        return None
    cell = int(np.clip(_SIDE // len(moved), _SMALLEST, _LARGEST))
    names = _names(graph.world_size, per_place, ranks_per_node)
    every = -(-16 // cell)  # 16 px is the height of a line of text, and the width of two digits
    order = np.argsort(-moved, axis=None, kind="stable")[: min(MAX_PAIRS, np.count_nonzero(moved))]
    places = [divmod(at, len(moved)) for at in order.tolist()]
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
        pairs=[(names[source], names[target], int(moved[source, target])) for source, target in places],
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
    """One path a level: a half of the most and above, an eighth, and so on; what is less has the lowest.

    A level says how a pair stands against the busiest, whatever the least is, so equal pairs have equal colours.
    Gradients and control messages differ by magnitudes, so the steps are those of a logarithm.
    """
    behind = np.log(moved.max() / np.maximum(moved, 1)) / np.log(STEP)
    level = LEVELS - 1 - np.clip(np.floor(behind + 0.5 + 1e-9).astype(np.int64), 0, LEVELS - 1)
    paths: list[list[str]] = [[] for _ in range(LEVELS)]
    for row, column in np.argwhere(moved > 0).tolist():
        paths[level[row, column]].append(f"M{column * cell} {row * cell}h{cell - 1}v{cell - 1}h{1 - cell}z")
    return ["".join(path) for path in paths]
