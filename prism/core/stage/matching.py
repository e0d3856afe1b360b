"""Matching: which posts of which ranks are one operation, and what each member gets out of it.

Collectives of a group match by their number: the k-th that a member posts on the group belongs to the k-th of every
other member. Messages match first in, first out, by (sender, receiver, tag); a receive from any source takes the oldest
message that fits. Members of one operation must agree on what it is; where they do not, the operation is *broken*: it
never completes, and its `broken` says who said what.
"""

from __future__ import annotations

from collections import defaultdict

from prism.core.calls import Call
from prism.core.events import Posted
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.semantics import rules
from prism.core.stage.agreement import differs, scatter_disagreement
from prism.core.stage.op import CommGroup, Op, Post
from prism.core.stage.unmatched import ANY, Unmatched
from prism.core.stage.warnings import Warnings


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
        self._staging: dict[tuple[int, int], Post] = {}  # (rank, handle) -> a post whose input is still on its way
        self._unmatched = Unmatched()

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
        post = Post(event.rank, event.handle, event.call, event.payload, event.site, event.staged)
        if not event.staged:
            self._staging[event.rank, event.handle] = post
        if event.call.kind is OpKind.SEND_RECV:
            return self._message(group, post)
        return self._collective(group, post)

    def staged(self, rank: int, handle: int) -> None:
        """The input of a post that came before is there."""
        self._staging.pop((rank, handle)).staged = True

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
        self._check(op, op.broken or differs(first, post) or (self._size_disagreement(op) if op.complete else ""))
        return op

    def _message(self, group: CommGroup, post: Post) -> Op | None:
        me, toward = group.member(post.rank), self._toward(group, post.call.peer)
        for side in self._unmatched.facing(group.index, me, toward, post.call.sends):
            if self._meets(group, me, post.call, side.member, side.post.call):
                break
        else:
            self._unmatched.put(group.index, me, toward, post)
            return None
        self._unmatched.take(group.index, side)
        sender, receiver = (me, side.member) if post.call.sends else (side.member, me)
        send, recv = (post, side.post) if post.call.sends else (side.post, post)
        channel = self._channel(group, sender, receiver, send.call)
        seq = self._messages[group.index, *channel]
        self._messages[group.index, *channel] += 1
        op = self._new(group, seq, (group.ranks[channel[0]], group.ranks[channel[1]]), channel)
        op.posts = {0: send, 1: recv}
        self._check(op, self._message_disagreement(op))
        return op

    def _toward(self, group: CommGroup, peer: int) -> int:
        """The member that posts the other side of a message with this peer; ANY for any."""
        return peer if peer >= 0 else ANY

    def _channel(self, group: CommGroup, sender: int, receiver: int, send: Call) -> tuple[int, int, int]:
        """What a message runs in: the group ranks of its ends, and its tag."""
        return sender, receiver, send.tag

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
        if op.call.kind is OpKind.SCATTER:
            return scatter_disagreement(op, op.posts[op.call.root]) if op.call.root in op.posts else ""
        alike = op.call.kind is not OpKind.ALL_TO_ALL  # whether each sends the same to all
        row = tuple(op.sent(sender, 0) for sender in range(len(op.members))) if alike and op.call.recv else ()
        for receiver, post in sorted(op.posts.items(), key=lambda item: item[0]):
            if alike and post.call.recv in (row, ()):
                continue
            for sender, awaited in enumerate(post.call.recv):
                sent = op.sent(sender, receiver)
                if sent != awaited:
                    text = (
                        f"elements from rank {op.members[sender]} to rank {post.rank}: "
                        f"{sent} are sent, {awaited} are awaited"
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
