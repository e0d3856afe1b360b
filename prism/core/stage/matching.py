"""Matching: which posts of which ranks are one operation, and what each member gets out of it.

Collectives of a group match by their number: the k-th that a member posts on the group belongs to the k-th of every
other member. Messages match first in, first out, by (sender, receiver, tag); a receive from any source takes the oldest
message that fits. Members of one operation must agree on what it is; where they do not, the operation is *broken*: it
never completes, and its `broken` says who said what.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from prism.core.events import Call, Posted, Ref
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.semantics import rules
from prism.core.stage.warnings import Warnings

SELF_CONTAINED = frozenset({OpKind.BROADCAST, OpKind.SCATTER, OpKind.SEND_RECV, OpKind.BARRIER})
"""Operations whose result is one member's input (or nothing); all others need a fold once all have posted."""

UNEVEN = frozenset({OpKind.ALL_GATHER, OpKind.ALL_TO_ALL, OpKind.BARRIER, OpKind.SCATTER})
"""Operations whose members may bring inputs of different sizes."""


@dataclass(frozen=True)
class Post:
    """One member's side of an operation, as it was posted."""

    rank: int
    handle: int
    call: Call
    payload: Ref | None
    site: str


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
        return self.ranks.index(rank)


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
    def complete(self) -> bool:
        """Whether every member has posted."""
        return len(self.posts) == len(self.members)

    @property
    def ready(self) -> bool:
        """Whether the operation can be done: every member has posted, and they agree."""
        return self.complete and not self.broken

    @property
    def absent(self) -> list[int]:
        """The global ranks that have not posted."""
        return [rank for member, rank in enumerate(self.members) if member not in self.posts]

    def splits(self) -> tuple[tuple[int, ...], ...]:
        """Elements from each member to each member, where the operation has such a matrix."""
        return tuple(self.posts[m].call.send for m in range(len(self.members)))

    def result(self, member: int, itemsize: int) -> Ref | None:
        """What the member has to copy into its tensors; None for nothing."""
        if not self.results:
            return None
        return share(self.call.kind, member, self.call.root, self.results, self.splits(), itemsize)

    def blocks(self, member: int, itemsize: int) -> tuple[int, ...]:
        """Bytes that a member gets from each, where that is less than it awaits; else nothing."""
        if self.call.kind is not OpKind.ALL_TO_ALL:
            return ()
        sent = tuple(row[member] for row in self.splits())
        return () if sent == self.posts[member].call.recv else tuple(count * itemsize for count in sent)


def share(
    kind: OpKind, member: int, root: int, results: tuple[Ref, ...], splits: tuple[tuple[int, ...], ...], itemsize: int
) -> Ref | None:
    """The part of an operation's results that a member gets: nothing, its slice, its own, or the one for all."""
    if kind is OpKind.SEND_RECV:
        return results[0] if member == 1 else None
    if kind is OpKind.BROADCAST:
        return None if member == root else results[0]
    if kind in (OpKind.REDUCE, OpKind.GATHER):
        return results[0] if member == root else None
    if kind is OpKind.ALL_TO_ALL:
        return results[member]
    if kind is OpKind.SCATTER:
        nbytes = results[0].nbytes // len(splits)
        return results[0].part(member * nbytes, nbytes)
    if kind is OpKind.REDUCE_SCATTER:
        row = splits[member]
        return results[0].part(sum(row[:member]) * itemsize, row[member] * itemsize)
    return results[0]


class Matcher:
    """All groups and operations of a run, in the making.

    Two ranks mean the same group when its name, its members and how often they have made it are the same: names alone
    are not enough, since frameworks number their groups on each rank and make them again after a tear-down.
    """

    def __init__(self) -> None:
        self.groups: list[CommGroup] = []
        self.ops: list[Op] = []
        self.broken: Op | None = None  # the first broken operation
        self.warnings = Warnings()
        self._made: dict[tuple[str, tuple[int, ...]], list[CommGroup]] = defaultdict(list)
        self._current: dict[tuple[int, str], CommGroup] = {}
        self._collectives: dict[int, list[Op]] = defaultdict(list)
        self._posted: dict[tuple[int, int], int] = defaultdict(int)  # (group, member) -> collectives posted
        self._messages: dict[tuple[int, int, int, int], int] = defaultdict(int)  # channel of a group -> messages made
        self._open: dict[int, list[tuple[bool, int, Post]]] = defaultdict(list)  # group -> unmatched (sends, me, post)

    def join(self, rank: int, name: str, ranks: tuple[int, ...], backend: str) -> CommGroup:
        """A member made its process group object."""
        made = self._made[name, ranks]
        group = next((g for g in made if rank not in g.joined), None)
        if group is None:
            group = CommGroup(len(self.groups), name, ranks, backend, len(made))
            self.groups.append(group)
            made.append(group)
        group.joined[rank] = None
        self._current[rank, name] = group
        return group

    def of(self, rank: int, name: str) -> CommGroup:
        """The group that a rank means by a name now."""
        return self._current[rank, name]

    def post(self, event: Posted) -> Op | None:
        """The operation that a post belongs to; None for a message whose other side is not there yet."""
        group = self.of(event.rank, event.group)
        post = Post(event.rank, event.handle, event.call, event.payload, event.site)
        if event.call.kind is OpKind.SEND_RECV:
            return self._message(group, post)
        return self._collective(group, post)

    def last_common(self, group: CommGroup) -> Op | None:
        """The last collective of the group that all its members have posted."""
        done = [op for op in self._collectives[group.index] if op.ready]
        return done[-1] if done else None

    def _collective(self, group: CommGroup, post: Post) -> Op:
        member = group.member(post.rank)
        seq = self._posted[group.index, member]
        self._posted[group.index, member] = seq + 1
        line = self._collectives[group.index]
        if seq == len(line):
            line.append(self._new(group, seq, group.ranks, ()))
        op = line[seq]
        op.posts[member] = post
        first = next(iter(op.posts.values()))
        self._check(op, op.broken or _differs(first, post) or (self._size_disagreement(op) if op.complete else ""))
        return op

    def _message(self, group: CommGroup, post: Post) -> Op | None:
        me = group.member(post.rank)
        waiting = self._open[group.index]
        for at, (sends, other, peer_post) in enumerate(waiting):
            if sends != post.call.sends and self._meets(group, me, post.call, other, peer_post.call):
                del waiting[at]
                break
        else:
            waiting.append((post.call.sends, me, post))
            return None
        sender, receiver = (me, other) if post.call.sends else (other, me)
        channel = (sender, receiver, post.call.tag if post.call.sends else peer_post.call.tag)
        seq = self._messages[group.index, *channel]
        self._messages[group.index, *channel] += 1
        op = self._new(group, seq, (group.ranks[sender], group.ranks[receiver]), channel)
        op.posts = {0: post, 1: peer_post} if post.call.sends else {0: peer_post, 1: post}
        self._check(op, self._message_disagreement(op))
        return op

    def _meets(self, group: CommGroup, me: int, mine: Call, other: int, theirs: Call) -> bool:
        if mine.peer not in (other, -1) or theirs.peer not in (me, -1):
            return False
        if mine.tag == theirs.tag:
            return True
        if not rules(group.backend).tags:
            sender, receiver = (me, other) if mine.sends else (other, me)
            sent, awaited = (mine.tag, theirs.tag) if mine.sends else (theirs.tag, mine.tag)
            ranks = group.ranks[sender], group.ranks[receiver]
            self.warnings.add(
                "tags_ignored",
                f"messages from rank {ranks[0]} to rank {ranks[1]} on group {group.name} are sent with tag {sent} and "
                f"awaited with tag {awaited}: {group.backend} matches them by order and ignores tags",
                *ranks,
            )
            return True
        return False

    def _size_disagreement(self, op: Op) -> str:
        """What members await from each other is what the others send."""
        posts = [op.posts[m] for m in range(len(op.members))]
        if op.call.kind is OpKind.SCATTER:
            return _scatter_disagreement(posts, posts[op.call.root])
        for receiver, post in enumerate(posts):
            for sender, awaited in enumerate(post.call.recv):
                other = posts[sender]
                sent = other.call.send[receiver] if op.call.kind is OpKind.ALL_TO_ALL else other.call.count
                if sent != awaited:
                    text = (
                        f"elements from rank {other.rank} to rank {post.rank}: {sent} are sent, {awaited} are awaited"
                    )
                    if op.call.kind is not OpKind.ALL_TO_ALL or not self._tolerated(op, sent, awaited, text, post):
                        return text
        return ""

    def _message_disagreement(self, op: Op) -> str:
        send, recv = op.posts[0], op.posts[1]
        told = [f"{p.call.count} x {p.call.dtype}" for p in (send, recv)]
        if told[0] == told[1]:
            return ""
        text = f"message from rank {send.rank} to rank {recv.rank}: {told[0]} are sent, {told[1]} are awaited"
        sent, awaited = (p.call.count * ITEMSIZE[p.call.dtype] for p in (send, recv))
        return "" if self._tolerated(op, sent, awaited, text, recv) else text

    def _tolerated(self, op: Op, sent: int, awaited: int, text: str, receiver: Post) -> bool:
        """Whether the backend lets a receive pass that is longer than what comes; it is worth a warning."""
        if sent > awaited or not rules(op.group.backend).long_receive:
            return False
        self.warnings.add("size_mismatch", f"{text} at {receiver.site or '?'}", receiver.rank)
        return True

    def _check(self, op: Op, disagreement: str) -> None:
        op.broken = op.broken or disagreement
        if op.broken and self.broken is None:
            self.broken = op

    def _new(self, group: CommGroup, seq: int, members: tuple[int, ...], channel: tuple[int, ...]) -> Op:
        op = Op(len(self.ops), group, seq, members, channel)
        self.ops.append(op)
        return op


def disagreement(op: Op) -> str:
    """In what the members of a broken operation disagree, told by rank and not by who came first."""
    first, *others = (op.posts[member] for member in sorted(op.posts))
    return next((text for post in others if (text := _differs(first, post))), op.broken)


def _differs(first: Post, post: Post) -> str:
    """Two members name the same operation, type, reduction and root, and (where they must) the same size."""
    theirs, ours = first.call, post.call
    told: list[tuple[str, object, object]] = [
        ("operation", theirs.name, ours.name),
        ("dtype", theirs.dtype, ours.dtype),
        ("reduction", theirs.reduce, ours.reduce),
        ("root", theirs.root, ours.root),
    ]
    if ours.kind not in UNEVEN:
        told.append(("elements", theirs.count, ours.count))
    if ours.kind is OpKind.REDUCE_SCATTER:
        told.append(("sizes", list(theirs.send), list(ours.send)))
    if ours.kind is OpKind.SEND_RECV:
        return ""  # two sides of a message differ by nature
    for what, a, b in told:
        if a != b:
            return f"{what}: rank {first.rank} has {a}, rank {post.rank} has {b}"
    return ""


def _scatter_disagreement(posts: list[Post], root: Post) -> str:
    for post in posts:
        if post is not root and post.call.count * len(posts) != root.call.count:
            return (
                f"elements: rank {root.rank} scatters {root.call.count} over {len(posts)} ranks, "
                f"rank {post.rank} awaits {post.call.count}"
            )
    return ""
