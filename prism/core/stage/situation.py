"""The situation: what can be seen of a stage at one moment; the world changes it, verdicts are found by looking."""

from __future__ import annotations

from collections.abc import Sequence

from prism.core.diagnosis import Diagnosis
from prism.core.stage.askers import Askers
from prism.core.stage.exchange import Exchange, FoldDue
from prism.core.stage.ledger import Ledger
from prism.core.stage.loans import Loans
from prism.core.stage.ranks import Rank


class Situation:
    """All ranks and what is known of them; times are in ns of the driver's clock."""

    def __init__(self, ranks: Sequence[int], exchange: Exchange, hang_after: int) -> None:
        self.ranks = {rank: Rank(rank) for rank in ranks}
        self.exchange = exchange
        self.hang_after = hang_after
        self.ledger = Ledger()
        self.folds: dict[int, FoldDue] = {}  # sums that are under way, by the number of the operation
        self.loans = Loans()
        self.askers = Askers()
        self.now = 0
        self.heard = 0  # when a rank last said anything
        self.acting = len(self.ranks)  # ranks that can go on by themselves
        self.ended = 0
        self.failed: dict[int, int] = {}  # ranks that raised or ended badly -> when
        self.troubled: int | None = None  # when the first thing went wrong that others may still add to
        self.diagnosis: Diagnosis | None = None
        self.interrupted = False
        self.broke = ""  # what failed in us, not in the program
        self.refused = ""  # what this machine does not have

    @property
    def over(self) -> bool:
        """Whether nothing is left to do but to end what is still alive."""
        ends = self.diagnosis or self.interrupted or self.broke or self.refused
        return bool(ends) or self.ended == len(self.ranks)

    @property
    def alive(self) -> bool:
        """Whether any rank has a process."""
        return any(rank.alive for rank in self.ranks.values())
