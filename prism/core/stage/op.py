"""One operation: who is in it, what each member brings, and what each gets out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from prism.core.calls import Call, Ref
from prism.core.graph import OpKind

SELF_CONTAINED = frozenset({OpKind.BROADCAST, OpKind.SCATTER, OpKind.SEND_RECV, OpKind.BARRIER})
"""Operations whose result is one member's input (or nothing); all others need a fold once all have posted."""

UNEVEN = frozenset({OpKind.ALL_GATHER, OpKind.ALL_TO_ALL, OpKind.BARRIER, OpKind.SCATTER})
"""Operations whose members may bring inputs of different sizes."""


@dataclass
class Post:
    """One member's side of an operation, as it was posted."""

    rank: int
    handle: int
    call: Call
    payload: Ref | None
    site: str
    staged: bool = True  # whether the payload's bytes are there


@dataclass
class CommGroup:
    """A process group as the ranks made it: name, global ranks by group rank, who has joined, how often made before."""

    index: int
    name: str
    ranks: tuple[int, ...]
    backend: str
    generation: int = 0
    joined: dict[int, None] = field(default_factory=dict)

    def member(self, rank: int) -> int:
        """The group rank of a global rank."""
        return self._places[rank]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {rank: place for place, rank in enumerate(self.ranks)}


@dataclass
class Op:
    """One operation: `posts` by group rank (a message: 0 is the sender, 1 the receiver)."""

    number: int
    group: CommGroup
    seq: int
    members: tuple[int, ...]  # global ranks, in the order of `posts`
    channel: tuple[int, ...]  # () for collectives; (sender, receiver, tag) for messages
    posts: dict[int, Post] = field(default_factory=dict)
    results: tuple[Ref, ...] = ()
    done: bool = False
    broken: str = ""  # in what the members disagree

    @property
    def call(self) -> Call:
        """The first member's view of the operation."""
        return next(iter(self.posts.values())).call

    @property
    def needed(self) -> Sequence[int]:
        """The members that have to post."""
        return range(len(self.members))

    @property
    def complete(self) -> bool:
        """Whether every member has posted."""
        return len(self.posts) == len(self.needed)

    @property
    def ready(self) -> bool:
        """Whether the operation can be done: every member has posted, they agree, and every input is there."""
        return self.complete and not self.broken and all(post.staged for post in self.posts.values())

    @property
    def absent(self) -> list[int]:
        """The global ranks that have not posted, or whose input is still on its way."""
        return [
            self.members[member]
            for member in self.needed
            if (post := self.posts.get(member)) is None or not post.staged
        ]

    @property
    def giver(self) -> Post:
        """Whose input is the result, where one member's is."""
        return self.posts[max(self.call.root, 0)]

    @property
    def source(self) -> int:
        """The group rank of a message's sender, as its receiver knows it; -1 for collectives."""
        return self.channel[0] if self.channel else -1

    def inputs(self) -> tuple[Ref | None, ...]:
        """What each member brings to the arithmetic."""
        return tuple(self.posts[m].payload for m in range(len(self.members)))

    def routes(self) -> tuple[tuple[Ref, ...], ...]:
        """What each result is put together from; nothing, where inputs and splits tell."""
        return ()

    def sent(self, sender: int, receiver: int) -> int:
        """Elements from one member to another."""
        call = self.posts[sender].call
        return call.send[receiver] if call.kind is OpKind.ALL_TO_ALL else call.count

    def splits(self) -> tuple[tuple[int, ...], ...]:
        """Elements from each member to each member, where the operation has such a matrix."""
        return tuple(self.posts[m].call.send for m in range(len(self.members)))

    def whole(self, member: int) -> Ref:
        """The one of the results that a member's is, or is a part of."""
        return self.results[min(member, len(self.results) - 1)]

    def result(self, member: int, itemsize: int) -> Ref | None:
        """What the member has to copy into its tensors; None for nothing."""
        if not self.results:
            return None
        call = self.call
        row = call.send if call.kind is OpKind.REDUCE_SCATTER else ()  # all members have the same
        return share(call.kind, member, call.root, self.results, len(self.members), row, itemsize)

    def blocks(self, member: int, itemsize: int) -> tuple[int, ...]:
        """Bytes that a member gets from each, where that is less than it awaits; else nothing."""
        if self.call.kind is not OpKind.ALL_TO_ALL:
            return ()
        sent = tuple(self.sent(sender, member) for sender in range(len(self.members)))
        return () if sent == self.posts[member].call.recv else tuple(count * itemsize for count in sent)


def share(
    kind: OpKind, member: int, root: int, results: tuple[Ref, ...], size: int, row: Sequence[int], itemsize: int
) -> Ref | None:
    """The part of an operation's results that one of `size` members gets: nothing, its slice, its own, or all of it.

    `row` is how many elements of a reduce_scatter's result each member gets.
    """
    if kind is OpKind.SEND_RECV:
        return results[0] if member == 1 else None
    if kind is OpKind.BROADCAST:
        return None if member == root else results[0]
    if kind in (OpKind.REDUCE, OpKind.GATHER):
        return results[0] if member == root else None
    if kind is OpKind.ALL_TO_ALL:
        return results[member]
    if kind is OpKind.SCATTER:
        nbytes = results[0].nbytes // size
        return results[0].part(member * nbytes, nbytes)
    if kind is OpKind.REDUCE_SCATTER:
        return results[0].part(sum(row[:member]) * itemsize, row[member] * itemsize)
    return results[0]
