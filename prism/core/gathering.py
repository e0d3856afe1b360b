"""Ranks that talk most, gathered on the same workers: a placement is grown, or improved by ranks that change places.

Graph partitioning with parts of given sizes: greedy growth, then exchanges of pairs as Kernighan and Lin have them
(Bell System Technical Journal 49, 1970), taken one at a time and only where fewer bytes cross. What crosses is said by
prism.core.traffic. Ties go to the lowest rank, so equal traffic gives equal placements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from prism.core.graph import Int64
from prism.core.traffic import Talk

PASSES = 8
"""Times that all ranks are looked at for one to change places with; two or three find nearly all that there is."""


class Gathering:
    """The traffic of some ranks. What all of them take part in crosses anyhow, and is left out."""

    def __init__(self, ranks: Sequence[int], talks: Sequence[Talk]) -> None:
        self._ranks = list(ranks)
        row = {rank: number for number, rank in enumerate(ranks)}
        some = [talk for talk in talks if len(talk.ranks) < len(ranks)]
        self._members: list[Int64] = [np.array([row[rank] for rank in talk.ranks], np.int64) for talk in some]
        self._nbytes = [talk.nbytes for talk in some]
        self._weights = [talk.nbytes // (len(talk.ranks) - 1) for talk in some]  # between two of the members
        self._of: list[list[int]] = [[] for _ in ranks]
        for number, members in enumerate(self._members):
            for member in members.tolist():
                self._of[member].append(number)

    def grown(self, shares: Mapping[int, int]) -> dict[int, int]:
        """Worker after worker: the lowest rank that is left, then always the one that talks most with those it has."""
        at = np.full(len(self._ranks), -1, np.int64)
        for worker, share in sorted(shares.items()):
            close = np.zeros(len(self._ranks), np.int64)
            for _ in range(share):
                chosen = int(np.where(at < 0, close, -1).argmax())
                at[chosen] = worker
                for number in self._of[chosen]:
                    close[self._members[number]] += self._weights[number]
        return self._told(at)

    def improved(self, placed: Mapping[int, int]) -> dict[int, int]:
        """A placement with as many ranks on each worker, of which no more bytes cross: pairs change places."""
        at = np.array([placed[rank] for rank in self._ranks], np.int64)
        workers = int(at.max(initial=-1)) + 1
        pull = np.zeros((len(self._ranks), workers), np.int64)  # what each rank has in common with each worker's
        for members, weight in zip(self._members, self._weights, strict=True):
            pull[members] += weight * np.bincount(at[members], minlength=workers)
        for _ in range(PASSES):
            if not sum([self._exchange(row, at, pull) for row in range(len(self._ranks))]):
                break
        return self._told(at)

    def _exchange(self, row: int, at: Int64, pull: Int64) -> bool:
        """Let a rank change places with who gains most by it, on the worker that draws it most; false if none does."""
        here = int(at[row])
        draws = pull[row] - pull[row, here]
        draws[here] = np.iinfo(np.int64).min
        there = int(draws.argmax())
        others = np.flatnonzero(at == there)
        if not len(others):
            return False
        other = int(others[(pull[others, here] - pull[others, there]).argmax()])
        touched = sorted({*self._of[row], *self._of[other]})
        before = self._cut(touched, at)
        at[row], at[other] = there, here
        if self._cut(touched, at) >= before:
            at[row], at[other] = here, there
            return False
        for moved, source, target in ((row, here, there), (other, there, here)):
            for number in self._of[moved]:
                pull[self._members[number], source] -= self._weights[number]
                pull[self._members[number], target] += self._weights[number]
        return True

    def _cut(self, numbers: Sequence[int], at: Int64) -> int:
        """The bytes that cross of some of what ranks say to each other."""
        members = ((self._nbytes[number], self._members[number]) for number in numbers)
        return sum(nbytes * (len(of) - int(np.bincount(at[of]).max())) for nbytes, of in members)

    def _told(self, at: Int64) -> dict[int, int]:
        return dict(zip(self._ranks, at.tolist(), strict=True))
