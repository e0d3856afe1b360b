"""Where the world's operations get their answers: what it needs of an exchange, and what that says follows.

While capturing the other ranks answer (capture.py), afterwards the record does (answers.py, and verification.py in
prism.core.folding); in an emulation nobody has to (prism.core.emulation.sandboxed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from prism.core.calls import Ref, Reply, StoreCall
from prism.core.contribution import Part
from prism.core.events import Asked, Clocked, Finished, Folded, Joined, Marked, Posted, Staged, Timed, Waited
from prism.core.stage.op import CommGroup, Op
from prism.core.stage.warnings import Warnings


@dataclass(frozen=True)
class Done:
    """An operation is over for a rank; `result` is what it has to copy, in `blocks` where they are short.

    `source` is the group rank of a message's sender; `synthesised`: the result was not kept, one is to be made up.
    """

    rank: int
    handle: int
    result: Ref | None
    blocks: tuple[int, ...] = ()
    source: int = -1
    synthesised: bool = False


@dataclass(frozen=True)
class FoldDue:
    """All members have posted; `rank` came last and shall do the arithmetic, and keep some partial sums too."""

    op: Op
    rank: int
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Spent:
    """A rank's input has been folded; its bytes may be used again."""

    rank: int
    payload: Ref


@dataclass(frozen=True)
class Lent:
    """A rank's bytes hold a result that nobody keeps: free once the readers, each a rank and a handle, have it."""

    rank: int
    payload: Ref
    readers: tuple[tuple[int, int], ...]


Outcome = Done | FoldDue | Spent | Lent


class Exchange(Protocol):
    """What the world needs of either kind; each method may raise Diverged."""

    @property
    def broken(self) -> Op | None:
        """An operation whose members disagree."""

    @property
    def warnings(self) -> Warnings:
        """What passed and may not elsewhere."""

    def join(self, event: Joined) -> None:
        """A rank made a process group."""

    def post(self, event: Posted) -> list[Outcome]:
        """A rank posted; what follows from it."""

    def staged(self, event: Staged) -> list[Outcome]:
        """The input of an operation is there; what follows from it."""

    def folded(self, event: Folded) -> list[Outcome]:
        """The arithmetic of an operation is done; what follows from it."""

    def wait(self, event: Waited) -> None:
        """A rank waits."""

    def mark(self, event: Marked) -> None:
        """An iteration of a rank ended."""

    def timed(self, event: Timed) -> None:
        """Segments of a rank were timed by its device."""

    def clocked(self, event: Clocked) -> None:
        """A rank tells how its device ran while it was timed."""

    def finish(self, event: Finished) -> None:
        """The program of a rank is over."""

    def complete(self, rank: int) -> bool:
        """Whether the rank has done all that is known of it beforehand."""

    def ask(self, event: Asked) -> Reply | None:
        """The store's reply, or None while a key is missing."""

    def missing(self, request: StoreCall) -> list[str]:
        """The keys that a call of the store waits for."""

    def find(self, rank: int, handle: int) -> Op | None:
        """The operation a post belongs to; None for a message whose other side is not there."""

    def members(self, rank: int, group: str) -> tuple[int, ...]:
        """The global ranks of a group as the rank knows it."""

    def acting(self, rank: int) -> int:
        """Who acts for a rank: it does itself, or another that stands for it."""

    def last_common(self, group: CommGroup) -> Op | None:
        """The last collective of the group that all its members have posted."""
