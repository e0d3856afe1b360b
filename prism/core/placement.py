"""Which worker runs which rank, and which slice where; workers are numbers from 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def place(ranks: Sequence[int], ranks_per_node: int, workers: int) -> dict[int, int]:
    """The worker of each rank: a node's ranks, which talk most, on one, and the nodes dealt out in turns.

    Where there are fewer nodes than workers, each gets as many neighbours as the others, give or take one.
    """
    nodes = dict.fromkeys(rank // ranks_per_node for rank in ranks)
    if len(nodes) >= workers:
        turn = {node: number % workers for number, node in enumerate(nodes)}
        return {rank: turn[rank // ranks_per_node] for rank in ranks}
    return {rank: number * workers // len(ranks) for number, rank in enumerate(ranks)}


def deal(slices: Sequence[Sequence[int]], homes: Mapping[int, int], workers: int) -> dict[int, int]:
    """The slices to run at one time: the number of each, and its worker, one slice a worker.

    A slice runs where its first rank has its home, for there its results are; a worker without such a slice takes the
    first that would have to wait.
    """
    chosen: dict[int, int] = {}
    for number, ranks in enumerate(slices):
        home = homes.get(ranks[0], 0)
        if home not in chosen.values():
            chosen[number] = home
    left = (number for number in range(len(slices)) if number not in chosen)
    idle = [worker for worker in range(workers) if worker not in chosen.values()]
    chosen.update(zip(left, idle, strict=False))
    return dict(sorted(chosen.items()))
