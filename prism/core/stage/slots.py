"""Who may compute: the slots, and the line of ranks that wait for one, first come first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class Slots:
    """A fixed number of slots; a rank is in line at most once. `new` are those without a process, which are first."""

    def __init__(self, count: int, new: Iterable[int]) -> None:
        self.count = count
        self.free = count
        self._new = deque(new)
        self._line = deque[int]()

    @property
    def waiting(self) -> int:
        """How many ranks wait for a slot."""
        return len(self._new) + len(self._line)

    @property
    def head(self) -> int | None:
        """The rank with a process that is next, or None."""
        return self._line[0] if self._line else None

    def place(self, rank: int) -> int:
        """How many are before the rank in line; -1 if it does not stand there."""
        return self._line.index(rank) if rank in self._line else -1

    @property
    def held_back(self) -> bool:
        """Whether slots stay free because only new ranks could use them."""
        return bool(self.free and self._new and not self._line)

    def enqueue(self, rank: int) -> None:
        """The rank could go on and gets in line."""
        self._line.append(rank)

    def release(self) -> None:
        """A rank gave its slot up."""
        self.free += 1

    def drop(self, rank: int) -> None:
        """The rank leaves the line, if it stands there."""
        for line in (self._line, self._new):
            if rank in line:
                line.remove(rank)

    def grant(self, admits: bool = True) -> int | None:
        """The next rank that may go on, or None; `admits`: it may be a new one."""
        line = self._new if self._new and admits else self._line
        if not self.free or not line:
            return None
        self.free -= 1
        return line.popleft()
