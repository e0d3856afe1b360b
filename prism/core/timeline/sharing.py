"""Links that are shared: transfers that run at one time get max-min fair shares of what they all need.

A transfer runs at a *speed*, a fraction of the one that it has to itself. It takes a *load* of each of its links: the
fraction of the link that it needs at full speed, above one if it is too much for the link even alone. Speeds grow
together until a link is full; transfers over that link keep their speed, the others go on (progressive filling:
Bertsekas and Gallager, Data Networks, 6.5.2). Everything is in integers: speeds and loads in units of 1 / FULL, work
in nanoseconds x FULL. So nothing drifts, and a transfer that shares nothing takes its time to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

FULL = 1 << 30

Loads = tuple[tuple[int, int], ...]
"""(link, load) of one transfer, each link once."""


class Transfers:
    """The transfers in flight. What begins or ends at one time counts once `share` is called, at that time."""

    def __init__(self, loads: Sequence[Loads]) -> None:
        """loads: for every transfer, by number, what it takes of which links."""
        self._loads = loads
        self._users: dict[int, dict[int, None]] = {}
        self._left: dict[int, int] = {}
        self._since: dict[int, int] = {}
        self._speed: dict[int, int] = {}
        self._disturbed: dict[int, None] = {}

    def begin(self, transfer: int, work: int, now: int) -> None:
        """Start a transfer that takes `work` ns at full speed."""
        self._left[transfer], self._since[transfer], self._speed[transfer] = work * FULL, now, 0
        self._disturbed[transfer] = None
        for link, _ in self._loads[transfer]:
            self._users.setdefault(link, {})[transfer] = None

    def end(self, transfer: int) -> None:
        """Take a transfer off its links, whether it is done or not."""
        self._disturbed.pop(transfer, None)
        for column in (self._left, self._since, self._speed):
            del column[transfer]
        for link, _ in self._loads[transfer]:
            del self._users[link][transfer]
            self._disturbed.update(self._users[link])

    def share(self, now: int) -> dict[int, int]:
        """Share the links anew; returns the transfers whose end moved, and to when."""
        moved: dict[int, int] = {}
        for transfer, speed in self._fair(self._connected(self._disturbed)).items():
            if speed != self._speed[transfer]:
                self._left[transfer] -= (now - self._since[transfer]) * self._speed[transfer]
                self._since[transfer], self._speed[transfer] = now, speed
                moved[transfer] = now + max(0, -(-self._left[transfer] // speed))
        self._disturbed.clear()
        return moved

    def _connected(self, transfers: Iterable[int]) -> list[int]:
        """All transfers that share links with these, directly or through others."""
        found = dict.fromkeys(transfers)
        links: dict[int, None] = {}
        pending = list(found)
        while pending:
            for link, _ in self._loads[pending.pop()]:
                if link not in links:
                    links[link] = None
                    fresh = [user for user in self._users[link] if user not in found]
                    found.update(dict.fromkeys(fresh))
                    pending += fresh
        return list(found)

    def _fair(self, transfers: list[int]) -> dict[int, int]:
        waiting, speeds = dict.fromkeys(transfers), dict[int, int]()
        demand: dict[int, int] = {}
        for transfer in transfers:
            for link, load in self._loads[transfer]:
                demand[link] = demand.get(link, 0) + load
        room = dict.fromkeys(demand, FULL * FULL)
        while waiting:
            # Rounded up, so that thirds of 300 ns are 100 ns and not 101.
            levels = ((-(-room[link] // need), link) for link, need in demand.items() if need)
            level, full = min(levels, default=(FULL, -1))
            if level >= FULL:
                return speeds | dict.fromkeys(waiting, FULL)
            for transfer in [user for user in self._users[full] if user in waiting]:
                speeds[transfer] = max(1, level)
                del waiting[transfer]
                for link, load in self._loads[transfer]:
                    demand[link] -= load
                    room[link] -= load * level
        return speeds
