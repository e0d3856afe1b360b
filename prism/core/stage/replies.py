"""What the stores told a rank in its capture, for one that is answered from its record."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

import msgspec

from prism.core.calls import Reply, StoreCall


class Replies:
    """The replies that a rank has not got yet; equal calls get theirs in the recorded order.

    A store on a port, or in a file, that the program chooses anew in each run has another name than in the capture. It
    is the first one of the record that the rank has not called yet.
    """

    def __init__(self, recorded: Sequence[tuple[StoreCall, Reply]]) -> None:
        self._left: defaultdict[StoreCall, deque[Reply]] = defaultdict(deque)
        for call, reply in recorded:
            self._left[call].append(reply)
        self._stores = dict.fromkeys(call.store for call, _ in recorded)
        self._names: dict[str, str] = {}  # those of the record, by the rank's own

    def take(self, call: StoreCall) -> Reply | None:
        """The reply to a call; None if the record has no more."""
        left = self._left.get(msgspec.structs.replace(call, store=self._recorded_name(call.store)))
        return left.popleft() if left else None

    def _recorded_name(self, store: str) -> str:
        if store not in self._names:
            taken = self._names.values()
            uncalled = (name for name in self._stores if name not in taken)
            self._names[store] = store if store in self._stores else next(uncalled, store)
        return self._names[store]
