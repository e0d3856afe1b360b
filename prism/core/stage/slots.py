"""Who may compute: the slots of each host, and its line of ranks that wait for one, first come first served.

One that others cannot do without may get a slot that is not there; the next one that is given up is that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping


class Slots:
    """`count` slots on each host; a rank is in line at most once. `new` are those without a process, which are first.

    `hosts`: the host of each rank, by number; left out, all are on one.
    """

    def __init__(self, count: int, new: Iterable[int], hosts: Mapping[int, int] | None = None) -> None:
        self._host_of = hosts
        dealt: dict[int, list[int]] = {} if hosts else {0: []}
        for rank in new:
            dealt.setdefault(hosts[rank] if hosts else 0, []).append(rank)
        self._hosts = {host: _HostSlots(count, ranks) for host, ranks in dealt.items()}
        self._all = tuple(self._hosts.values())
        self.count = count * len(self._all)

    @property
    def free(self) -> int:
        """How many slots nobody holds; less than none where ranks hold some that are not there."""
        return sum(host.free for host in self._all)

    @property
    def head(self) -> int | None:
        """The rank with a process that is next, or None; where there are several hosts, on the first that has one."""
        return next((host.line[0] for host in self._all if host.line), None)

    @property
    def held_back(self) -> list[int]:
        """The hosts whose slots stay free because only new ranks could use them."""
        return [number for number, host in self._hosts.items() if host.free > 0 and host.new and not host.line]

    def waiting(self, rank: int) -> bool:
        """Whether others wait for a slot of the rank's host."""
        host = self._of(rank)
        return bool(host.new or host.line)

    def place(self, rank: int) -> int:
        """How many are before the rank in line; -1 if it does not stand there."""
        line = self._of(rank).line
        return line.index(rank) if rank in line else -1

    def enqueue(self, rank: int) -> None:
        """The rank could go on and gets in line."""
        self._of(rank).line.append(rank)

    def release(self, rank: int) -> None:
        """The rank gave its slot up."""
        self._of(rank).free += 1

    def drop(self, rank: int) -> None:
        """The rank leaves the line, if it stands there."""
        host = self._of(rank)
        for line in (host.line, host.new):
            if rank in line:
                line.remove(rank)

    def grant(self, admits: Callable[[int], bool] = lambda host: True) -> int | None:
        """The next rank that may go on, or None; `admits`: whether it may be a new one, by the number of its host."""
        for number, host in self._hosts.items():
            line = host.new if host.new and admits(number) else host.line
            if host.free > 0 and line:
                host.free -= 1
                return line.popleft()
        return None

    def claim(self, rank: int) -> None:
        """The rank, which stands in line, goes on whether there is a slot or not."""
        host = self._of(rank)
        host.line.remove(rank)
        host.free -= 1

    def _of(self, rank: int) -> _HostSlots:
        return self._hosts[self._host_of[rank] if self._host_of else 0]


class _HostSlots:
    """The slots of one host that are free, and its ranks in line: without a process, and with one."""

    def __init__(self, free: int, new: Iterable[int]) -> None:
        self.free = free
        self.new = deque(new)
        self.line = deque[int]()
