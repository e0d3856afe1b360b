"""The walk of an assistant over the touching operations: each begins once it is known when its virtual ranks post.

An operation begins once the one before it in its channel has ended, and all that its virtual posts follow from. So
there is at most one of each channel under way, and what is under way in one channel keeps no other from going on.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from prism.core.emulation.summary import Clock
from prism.gpu.emulation.answering import Answering
from prism.net.board import Board
from prism.net.schedule import Schedule


class Walk:
    """How far the emulation has come, as seen by one assistant; `answering` plays the virtual ranks."""

    def __init__(self, schedule: Schedule, board: Board, answering: Answering) -> None:
        touching = schedule.touching
        self._clock = Clock(touching, schedule.summary, schedule.costs)
        self._board = board
        self._answering = answering
        count = len(touching.op)
        self._left = count
        self._first = touching.prev < 0  # of those that have not begun: whether the one before has ended
        self._next = np.full(count, -1)
        after = np.flatnonzero(touching.prev >= 0)
        self._next[touching.prev[after]] = after
        self._posts = np.zeros((len(touching.sandbox), count), bool)
        places = np.searchsorted(touching.sandbox, touching.rank)
        self._posts[places, np.repeat(np.arange(count), np.diff(touching.member_ptr))] = True
        self._open: list[int] = []  # begun, and not ended

    def begin(self) -> None:
        """Begin what nothing has to end before; the board has its origin by now."""
        self._begin(op for op in np.flatnonzero(self._first).tolist() if self._clock.ready(op))

    def advance(self) -> bool:
        """Begin and end what can be; returns whether something is left."""
        while ended := self._posted():
            self._open = [op for op in self._open if op not in ended]
            for op in ended:
                self._end(op)
        put_off = self._answering.turn()
        return self._left > 0 or put_off

    def _posted(self) -> frozenset[int]:
        """Those under way that all their sandbox members have posted."""
        open_ = np.array(self._open, np.int64)
        done = ((self._board.posted[:, open_] > 0) | ~self._posts[:, open_]).all(axis=0)
        return frozenset(open_[done].tolist())

    def _end(self, op: int) -> None:
        posted = self._board.posted[self._posts[:, op], op]
        self._clock.finish(op, (posted - self._board.origin).tolist())
        self._left -= 1
        following = int(self._next[op])
        if following >= 0:
            self._first[following] = True
        unlocked = [*self._clock.unlocked]
        if following >= 0 and self._clock.ready(following) and following not in unlocked:
            unlocked.append(following)
        self._begin(other for other in unlocked if self._first[other])

    def _begin(self, ops: Iterable[int]) -> None:
        for op in ops:
            self._open.append(op)
            if op in self._answering.ops:
                self._answering.begin(op, self._clock.posts(op) + self._board.origin)
