"""The ledger of what is in flight: instructions whose ending has not been heard.

An idle event loop proves nothing while real processes work behind a socket; only an empty ledger does. A rank with an
entry may still act (a callback on a result may post the next operation), so nobody is called stuck because of it.
"""

from __future__ import annotations

from collections import defaultdict

BUSY = frozenset({"fold", "deliver", "defer", "stage", "page"})
"""What may let a rank act that waits; a look at it is none."""


class Ledger:
    """Open instructions of each rank, by what they are (fold, deliver, probe, suspend) and a number.

    So are inputs that a rank has yet to bring (stage), memory that is moved or waited for (page), and results that it
    will be given with its slot (defer).
    """

    def __init__(self) -> None:
        self._open: defaultdict[int, dict[tuple[str, int], None]] = defaultdict(dict)

    def open(self, what: str, rank: int, number: int = 0) -> None:
        """An instruction went out."""
        self._open[rank][what, number] = None

    def close(self, what: str, rank: int, number: int = 0) -> bool:
        """Its ending was heard; false if it was not open (a late ending of something cancelled)."""
        was_open = (what, number) in self._open[rank]
        if was_open:
            del self._open[rank][what, number]
        return was_open

    def busy(self, rank: int) -> bool:
        """Whether the rank has been given something to do whose ending is still to come."""
        return any(what in BUSY for what, _ in self._open[rank])

    def of(self, what: str, rank: int) -> list[int]:
        """The numbers that are open for a rank, oldest first."""
        return [number for kind, number in self._open[rank] if kind == what]

    def cancel(self, rank: int) -> None:
        """The rank is gone: nothing it was told will end."""
        self._open[rank].clear()
