"""Who may compute: the slots, and the line of ranks that wait for one, first come first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class Slots:
    """A fixed number of slots; a rank is in line at most once."""

    def __init__(self, count: int, ranks: Iterable[int]) -> None:
        self.free = count
        self._line = deque(ranks)

    @property
    def waiting(self) -> int:
        """How many ranks wait for a slot."""
        return len(self._line)

    def enqueue(self, rank: int) -> None:
        """The rank could go on and gets in line."""
        self._line.append(rank)

    def release(self) -> None:
        """A rank gave its slot up."""
        self.free += 1

    def drop(self, rank: int) -> None:
        """The rank leaves the line, if it stands there."""
        if rank in self._line:
            self._line.remove(rank)

    def grant(self) -> int | None:
        """The next rank that may go on, or None."""
        if not self.free or not self._line:
            return None
        self.free -= 1
        return self._line.popleft()
