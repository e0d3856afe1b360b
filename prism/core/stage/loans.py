"""Results that are lent: they lie in memory that is used again once every rank that copies them has done so."""

from __future__ import annotations

from dataclasses import dataclass

from prism.core.calls import Ref


@dataclass
class _Loan:
    owner: int
    payload: Ref
    readers: dict[tuple[int, int], None]  # (rank, handle) of the deliveries that are under way


class Loans:
    """The results that are lent now; each method returns, with the ranks that own them, those that nobody reads."""

    def __init__(self) -> None:
        self._by_reader: dict[tuple[int, int], list[_Loan]] = {}

    def lend(self, owner: int, payload: Ref, readers: list[tuple[int, int]]) -> list[tuple[int, Ref]]:
        """A result has been given to readers, each a rank and its handle."""
        loan = _Loan(owner, payload, dict.fromkeys(readers))
        for reader in readers:
            self._by_reader.setdefault(reader, []).append(loan)
        return [] if readers else [(owner, payload)]

    def read(self, rank: int, handle: int) -> list[tuple[int, Ref]]:
        """A reader has copied what it was given."""
        loans = self._by_reader.pop((rank, handle), [])
        for loan in loans:
            del loan.readers[rank, handle]
        return [(loan.owner, loan.payload) for loan in loans if not loan.readers]

    def gone(self, rank: int) -> list[tuple[int, Ref]]:
        """A rank reads nothing any more."""
        return [spent for reader in list(self._by_reader) if reader[0] == rank for spent in self.read(*reader)]
