"""Calls of the store that wait for a key: who asks once more when it is set."""

from __future__ import annotations

from collections.abc import Iterable

from prism.core.events import Asked


class Askers:
    """The calls that wait, found by their keys."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[tuple[int, int], Asked]] = {}  # key -> (rank, number of the call) -> call

    def add(self, call: Asked) -> None:
        """A call waits for its keys."""
        for key in call.request.keys:
            self._by_key.setdefault(key, {})[call.rank, call.number] = call

    def drop(self, call: Asked) -> None:
        """A call waits no more."""
        for key in dict.fromkeys(call.request.keys):
            waiting = self._by_key[key]
            waiting.pop((call.rank, call.number), None)
            if not waiting:
                del self._by_key[key]

    def of(self, keys: Iterable[str]) -> list[Asked]:
        """The calls that wait for any of the keys: those of main threads first, then by rank."""
        found = {at: call for key in keys for at, call in self._by_key.get(key, {}).items()}
        return sorted(found.values(), key=lambda call: (not call.main, call.rank, call.number))
