"""Standing in by role: what the ranks that do not run put into an operation, and what those that run get from it.

A rank that does not run posts what its representative posts, moved as it is itself (see shape.py and seats.py). So

- it brings to a sum, a gather or a barrier the input of its representative; a sum still has the input of every member,
  in the one order of prism.core.ring,
- in an all_to_all it sends, to whoever lies from it as a member lies from its representative, what that member gets,
- a message to it meets the message that its representative awaits from the opposite side,
- what it is the root of (a broadcast, a scatter) gives nothing: a rank that runs keeps what it has in its tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from prism.core.calls import Call, Ref
from prism.core.events import Joined, Posted
from prism.core.folding.seats import NotFoldable, Seats, seats
from prism.core.folding.shape import Folding, Shift
from prism.core.folding.unfolding import unfold
from prism.core.graph import ITEMSIZE, Graph, OpKind
from prism.core.stage.answers import Diverged
from prism.core.stage.capture import Capture
from prism.core.stage.exchange import Outcome
from prism.core.stage.kept import EVERYTHING, Kept
from prism.core.stage.matching import Matcher
from prism.core.stage.op import CommGroup, Op, Post
from prism.core.stage.unmatched import ANY


@dataclass
class FoldedOp(Op):
    """A collective: `posts` are those of the members that run, by group rank."""

    seats: Seats = field(kw_only=True)

    @property
    def needed(self) -> Sequence[int]:
        return self.seats.present

    @property
    def giver(self) -> Post:
        return self._post(max(self.call.root, 0))

    def inputs(self) -> tuple[Ref | None, ...]:
        return tuple(self._post(member).payload for member in range(len(self.members)))

    def routes(self) -> tuple[tuple[Ref, ...], ...]:
        if self.call.kind is not OpKind.ALL_TO_ALL:
            return ()
        members = range(len(self.members))
        return tuple(tuple(self._block(sender, receiver) for sender in members) for receiver in self.seats.present)

    def sent(self, sender: int, receiver: int) -> int:
        call = self._post(sender).call
        return call.send[self.seats.seen_from(sender, receiver)] if call.kind is OpKind.ALL_TO_ALL else call.count

    def splits(self) -> tuple[tuple[int, ...], ...]:
        members = range(len(self.members))
        if self.call.kind is OpKind.ALL_TO_ALL:
            return tuple(tuple(self.sent(sender, receiver) for receiver in members) for sender in members)
        return tuple(self._post(member).call.send for member in members)

    def whole(self, member: int) -> Ref:
        return self.results[self.seats.present.index(member) if self.call.kind is OpKind.ALL_TO_ALL else 0]

    def result(self, member: int, itemsize: int) -> Ref | None:
        if self.results and self.call.kind is OpKind.ALL_TO_ALL:
            return self.whole(member)
        return super().result(member, itemsize)

    def _post(self, member: int) -> Post:
        """That of whoever plays the member."""
        return self.posts[self.seats.player[member]]

    def _block(self, sender: int, receiver: int) -> Ref:
        """What one member sends to another, where it lies in the input of the one that plays the sender."""
        post, to = self._post(sender), self.seats.seen_from(sender, receiver)
        assert post.payload is not None, "an all_to_all has an input"
        itemsize = ITEMSIZE[post.call.dtype]
        return post.payload.part(sum(post.call.send[:to]) * itemsize, post.call.send[to] * itemsize)


@dataclass
class FoldedMessage(Op):
    """A message: its sender runs, and the rank that runs for its receiver is the one that posted the receive."""

    seats: Seats = field(kw_only=True)

    @property
    def source(self) -> int:
        sender, receiver, _ = self.channel
        return self.seats.seen_from(receiver, sender)


class FoldedMatcher(Matcher):
    """A matcher of the ranks that run; the other members of their groups post by role."""

    def __init__(self, folding: Folding) -> None:
        super().__init__()
        self.folding = folding
        self.names: dict[tuple[int, ...], list[str]] = {}  # ranks -> names of the groups that others make of them
        self._seats: dict[int, Seats] = {}

    def note_name(self, name: str, ranks: tuple[int, ...]) -> None:
        """Others make a group of theirs."""
        self.names.setdefault(ranks, []).append(name)

    def seats(self, group: CommGroup) -> Seats:
        """The seats of a group; raises NotFoldable."""
        if group.index not in self._seats:
            self._seats[group.index] = seats(self.folding, group.name, group.ranks)
        return self._seats[group.index]

    def _new(self, group: CommGroup, seq: int, members: tuple[int, ...], channel: tuple[int, ...]) -> Op:
        kind = FoldedMessage if channel else FoldedOp
        op = kind(len(self.ops), group, seq, members, channel, seats=self.seats(group))
        self.ops.append(op)
        return op

    def _toward(self, group: CommGroup, peer: int) -> int:
        return self._reached(group, peer)[0]

    def _channel(self, group: CommGroup, sender: int, receiver: int, send: Call) -> tuple[int, int, int]:
        return sender, send.peer, send.tag

    def _meets(self, group: CommGroup, me: int, mine: Call, other: int, theirs: Call) -> bool:
        (near, way), (far, back) = self._reached(group, mine.peer), self._reached(group, theirs.peer)
        if way is not None and back is not None and way != self._opposite(back):
            return False
        mine, theirs = (msgspec.structs.replace(c, peer=p) for c, p in ((mine, near), (theirs, far)))
        return super()._meets(group, me, mine, other, theirs)

    def _reached(self, group: CommGroup, peer: int) -> tuple[int, Shift | None]:
        """The group rank that runs for a peer, and how far the peer is from it; ANY and None for any peer."""
        if peer < 0:
            return ANY, None
        way = self.folding.shift(group.ranks[peer])
        return (self.seats(group).player[peer] if any(way) else peer), way

    def _opposite(self, shift: Shift) -> Shift:
        return tuple(-at % extent for at, extent in zip(shift, self.folding.extents, strict=True))


class Unfoldable(Diverged):
    """The world cannot go on: a rank uses a group that does not fit the folded dimensions."""

    def __init__(self, rank: int, error: NotFoldable) -> None:
        Exception.__init__(self, str(error))
        self.rank = rank


class FoldedCapture(Capture):
    """A capture of the representatives, whose graph is that of all ranks; `unfoldable` says what does not fit."""

    def __init__(self, folding: Folding, kept: Kept = EVERYTHING) -> None:
        super().__init__(folding.representatives, kept)
        self.folding = folding
        self.matcher: FoldedMatcher = FoldedMatcher(folding)
        self.unfoldable = ""

    def join(self, event: Joined) -> None:
        if event.rank in event.ranks:
            super().join(event)
        else:
            self.matcher.note_name(event.group, event.ranks)

    def post(self, event: Posted) -> list[Outcome]:
        try:
            return super().post(event)
        except NotFoldable as error:
            self.unfoldable = self.unfoldable or str(error)
            raise Unfoldable(event.rank, error) from None

    def acting(self, rank: int) -> int:
        return self.folding.representative(rank)

    def graph(self) -> Graph:
        """The bare graph of what all ranks do."""
        return unfold(self.records, self.matcher.ops, self.matcher.groups, self.matcher.names, self.folding)
