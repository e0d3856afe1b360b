"""Which worker runs which rank, and which piece of work where; workers are numbers from 0."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from prism.core.gathering import Gathering
from prism.core.graph import Int64
from prism.core.traffic import Talk, crossing


def place(ranks: Sequence[int], ranks_per_node: int, workers: int, talks: Sequence[Talk] = ()) -> dict[int, int]:
    """The worker of each rank: a node's ranks, which talk most, on one, and the nodes dealt out in turns.

    Where there are fewer nodes than workers, each gets as many neighbours as the others, give or take one. Where it is
    known what ranks say to each other (`talks`), each worker gets as many, but so that fewer bytes cross, if they can.
    """
    by_nodes = _by_nodes(ranks, ranks_per_node, workers)
    if not talks:
        return by_nodes
    gathering = Gathering(ranks, talks)
    begun = (by_nodes, gathering.grown(Counter(by_nodes.values())))
    return min(map(gathering.improved, begun), key=lambda placed: crossing(talks, placed))


def deal(held: Sequence[Mapping[int, int]], workers: int) -> list[int]:
    """The worker of each piece of work, so that the fewest bytes have to be brought, none with more than its share.

    held: how many bytes that a piece needs are on each worker; what is not there is brought. A share is as many pieces
    as all have to take if they take equally many, rounded up. Exact: pieces move along shortest paths between workers,
    from those with too many (successive shortest paths for the transportation problem).
    """
    here = np.array([[of.get(worker, 0) for worker in range(workers)] for of in held], np.int64).reshape(-1, workers)
    share = -(-len(held) // workers)
    at = here.argmax(axis=1) if len(held) else np.zeros(0, np.int64)
    while (count := np.bincount(at, minlength=workers)).max(initial=0) > share:
        for piece, to in _shortest_path(here, at, int(count.argmax()), (count < share).tolist()):
            at[piece] = to
    return [int(worker) for worker in at]


def _shortest_path(here: Int64, at: Int64, first: int, room: Sequence[bool]) -> list[tuple[int, int]]:
    """The moves (piece, worker) by which one piece less is on `first`, and one more on a worker with room."""
    workers = here.shape[1]
    cost: list[float] = [0 if worker == first else math.inf for worker in range(workers)]
    came: dict[int, tuple[int, int]] = {}  # how a worker is reached: the piece that moves there, and from where
    edges = [edge for source in range(workers) for edge in _edges(here, at, source)]
    for _ in range(workers - 1):  # Bellman and Ford: a piece may gain by moving
        for source, target, piece, lost in edges:
            if cost[source] + lost < cost[target]:
                cost[target], came[target] = cost[source] + lost, (piece, source)
    end = min((worker for worker in range(workers) if room[worker]), key=lambda worker: (cost[worker], worker))
    moves = []
    while end != first:
        piece, source = came[end]
        moves.append((piece, end))
        end = source
    return moves


def _edges(here: Int64, at: Int64, source: int) -> list[tuple[int, int, int, int]]:
    """From one worker to each other one: the piece that loses least by moving there, and how many bytes."""
    pieces = np.flatnonzero(at == source)
    if not len(pieces):
        return []
    lost = here[pieces, source][:, None] - here[pieces]
    least = lost.argmin(axis=0)
    return [
        (source, target, int(pieces[row]), int(lost[row, target]))
        for target, row in enumerate(least.tolist())
        if target != source
    ]


def _by_nodes(ranks: Sequence[int], ranks_per_node: int, workers: int) -> dict[int, int]:
    nodes = dict.fromkeys(rank // ranks_per_node for rank in ranks)
    if len(nodes) >= workers:
        turn = {node: number % workers for number, node in enumerate(nodes)}
        return {rank: turn[rank // ranks_per_node] for rank in ranks}
    return {rank: number * workers // len(ranks) for number, rank in enumerate(ranks)}
