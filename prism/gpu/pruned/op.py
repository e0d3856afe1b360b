"""What the pruned engine is told of an operation: one member's side, what virtual members bring, when they post."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.graph import DTYPES, REDUCES, OpKind
from prism.gpu.pruned import abi

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Op:
    """One member's side of a collective of `size` members; counts are elements.

    `count`: the tensor's (all_reduce, reduce, broadcast), one block's (scatter), else the own input's. `sends`: what
    goes to each member (reduce_scatter, all_to_all), `receives`: what comes from each (all_gather, gather,
    all_to_all); left out, the blocks are even. `root` is a group rank. `tree`: an all_reduce along two trees.
    """

    kind: OpKind
    size: int
    dtype: str = "none"
    reduce: str = "none"
    root: int = -1
    count: int = 0
    sends: tuple[int, ...] = ()
    receives: tuple[int, ...] = ()
    tree: bool = False

    def c(self) -> abi.Op:
        """As the engine takes it."""
        if self.kind is OpKind.SEND_RECV:
            raise ValueError("a message is no collective; it goes through a Pipe")
        for name, counts in (("sends", self.sends), ("receives", self.receives)):
            if len(counts) not in (0, self.size):
                raise ValueError(f"{name} has {len(counts)} entries for {self.size} members")
        return abi.Op(
            self.kind, DTYPES.index(self.dtype), REDUCES.index(self.reduce), self.root, self.size, self.tree,
            len(self.sends) > 0, len(self.receives) > 0, self.count, abi.array(self.sends), abi.array(self.receives),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contribution:
    """What an arc's members, or those of branches, bring: addresses of arrays over the op's elements.

    Address 0 brings identities of the reduction, or zero bytes where data are passed on.

    Along trees: with `exact` each branch sends up the recorded result, to which nobody adds anything, so `before` is of
    no use; `branches` may hold recorded sums to send instead, by the slots of the branches below a member. With `left`
    one branch of each tree carries the rest, whichever Branches it is given to. `prefolded` takes what the members of
    the branch in each slot add, and for the one with the root in the last slot; `head` and `tail` are for rings.
    """

    mode: int
    head: int = 0
    tail: int = 0
    final: int = 0
    branches: tuple[int, int, int, int] = (0, 0, 0, 0)

    @classmethod
    def exact(cls, before: int, final: int, branches: tuple[int, int, int] = (0, 0, 0)) -> Contribution:
        """The recorded running totals just before the sandbox member after the arc, then the recorded result."""
        return cls(0, head=before, final=final, branches=(*branches, 0))

    @classmethod
    def left(cls, rest: int, final: int) -> Contribution:
        """The arc's last member carries the fold of all virtual members; in the other arcs rest is 0."""
        return cls(1, head=rest, final=final)

    @classmethod
    def prefolded(
        cls, head: int, tail: int, final: int, branches: tuple[int, int, int, int] = (0, 0, 0, 0)
    ) -> Contribution:
        """The arc's own inputs, folded: `head` of chunks that begin in it, `tail` of those that come in."""
        return cls(2, head=head, tail=tail, final=final, branches=branches)

    @classmethod
    def replicas(cls) -> Contribution:
        """Each virtual member has the input of the sandbox member before the arc, a Member with `replicas`.

        In a branch: of the member that keeps it. In a broadcast, what that member's output holds before if it is not
        the root. Of an all_gather of unequal blocks: zeros.
        """
        return cls(3)

    @classmethod
    def zeros(cls) -> Contribution:
        """Nothing."""
        return cls.left(0, 0)

    def c(self) -> abi.Contribution:
        """As the engine takes it."""
        return abi.Contribution(self.mode, self.head, self.tail, self.final, self.branches)


@dataclass(frozen=True, slots=True)
class Pace:
    """When virtual members post, and the cost of the whole op (prism.core.timeline.network.Costs), all in ns.

    `posts`: of an Arc's members in its order; for Peers and Branches, of all members of the group (those of sandbox
    members are not read).
    """

    posts: Int64
    latency: int
    transfer: int

    def c(self) -> abi.Pace:
        """As the engine takes it."""
        return abi.Pace(abi.array(self.posts), len(self.posts), self.latency, self.transfer)
