"""The operations of all ranks: the copies of those of the representatives, in the order of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from prism.core.folding.orbits import Orbits
from prism.core.folding.seats import NotFoldable
from prism.core.folding.shape import Folding
from prism.core.graph import ITEMSIZE, Int64, OpKind, Table
from prism.core.levels import pointers, ranges
from prism.core.stage.building import op_table
from prism.core.stage.op import Op
from prism.core.what_if.mesh import LARGEST


class Ends:
    """The posts of those that run, op by op, by group rank; lanes refer to these until they are unfolded."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.rows: list[tuple[int, int, int]] = []  # the end itself, its rank and its handle
        self.ptr = pointers(np.array([len(op.posts) for op in ops], np.int64))
        for op in ops:
            for member in sorted(op.posts):
                self.rows.append((len(self.rows), op.posts[member].rank, op.posts[member].handle))
        self.of_post = {(rank, handle): end for end, rank, handle in self.rows}


@dataclass(frozen=True)
class Copies:
    """The copies of the ops of those that run, and their one order."""

    folding: Folding
    orbits: Orbits
    ops: Sequence[Op]

    @cached_property
    def group(self) -> Int64:
        """The group of each op of those that run."""
        return np.array([op.group.index for op in self.ops], np.int64)

    @cached_property
    def message(self) -> npt.NDArray[np.bool_]:
        """Whether each is a message."""
        return np.array([bool(op.channel) for op in self.ops], np.bool_)

    @cached_property
    def members(self) -> Int64:
        """Sender and receiver of each message, int64[ops, 2]; 0 for collectives."""
        return np.array([op.members if op.channel else (0, 0) for op in self.ops], np.int64).reshape(-1, 2)

    @cached_property
    def away(self) -> Int64:
        """How far the receiver of each message is from its sender, int64[ops, folded dimensions]."""
        return self.folding.coordinates(self.members[:, 1])

    @cached_property
    def radix(self) -> Int64:
        """At how many coordinates each has a copy, int64[ops, folded dimensions]: a message at all of them."""
        extents = np.array(self.folding.extents, np.int64)
        return np.where(self.message[:, None], extents, self.orbits.steps[self.group])

    @cached_property
    def start(self) -> Int64:
        """The copies of op i are start[i]:start[i + 1], by their coordinates."""
        return pointers(self.radix.prod(axis=1))

    @cached_property
    def unordered(self) -> tuple[Int64, Int64]:
        """The op and the coordinates of each copy, op by op."""
        source = np.repeat(np.arange(len(self.ops)), np.diff(self.start))
        return source, _digits(np.arange(source.size) - self.start[source], self.radix[source])

    @cached_property
    def order(self) -> Int64:
        """The copies, as the graph has them."""
        source, at = self.unordered
        sender, receiver = self._channels(source, at)
        table = self._table
        return np.lexsort((table["seq"][source], table["tag"][source], receiver, sender, self._groups(source, at)))

    @cached_property
    def number(self) -> Int64:
        """The op of the graph that each copy is."""
        number = np.empty(self.order.size, np.int64)
        number[self.order] = np.arange(self.order.size)
        return number

    def op(self, source: Int64, at: Int64) -> Int64:
        """The ops of the graph that are copies of these, at any coordinates: those of the copy come of them."""
        radix = self.radix[source]
        found: Int64 = self.number[self.start[source] + _value(at % radix, radix)]
        return found

    def posts(self, ends: Ends) -> tuple[Int64, Int64, Int64]:
        """`post_ptr`, and of each post the rank and which of the ends it repeats."""
        source, at = (column[self.order] for column in self.unordered)
        member_ptr, member, ordinal = self._seating
        row = np.where(self.message[source], len(self.orbits.seats), self.group[source])
        first, last = member_ptr[row], member_ptr[row + 1]
        refuse_too_large(int((last - first).sum()), "posts")
        where, op = ranges(first, last), np.repeat(np.arange(row.size), last - first)
        post_ptr = pointers(last - first)
        rank = member[where] + self.folding.offset(at)[op]
        sending = np.flatnonzero(self.message[source])
        for side, ranks in enumerate(self._peers(source[sending], at[sending])):
            rank[post_ptr[sending] + side] = ranks
        return post_ptr, rank, ends.ptr[source[op]] + ordinal[where]

    def _peers(self, source: Int64, at: Int64) -> tuple[Int64, Int64]:
        """Sender and receiver of copies of messages."""
        home = self.members[source, 1] - self.folding.offset(self.away[source])
        across = (at + self.away[source]) % np.array(self.folding.extents, np.int64)
        return self.members[source, 0] + self.folding.offset(at), home + self.folding.offset(across)

    @cached_property
    def _seating(self) -> tuple[Int64, Int64, Int64]:
        """Of each group the members and, counted among those that run, who plays them; and two rows of a message."""
        ranks, players, lengths = list[int](), list[int](), list[int]()
        for of in self.orbits.seats:
            turn = {seat: n for n, seat in enumerate(of.present)} if of is not None else {}
            ranks += of.ranks if of is not None else ()
            players += [turn[player] for player in of.player] if of is not None else ()
            lengths.append(len(of.ranks) if of is not None else 0)
        ptr = pointers(np.array([*lengths, 2], np.int64))
        return ptr, np.array([*ranks, 0, 1], np.int64), np.array([*players, 0, 1], np.int64)

    def table(self) -> Table:
        """The ops of the graph."""
        source, at = (column[self.order] for column in self.unordered)
        table = self._table[source]
        sender, receiver = self._channels(source, at)
        table["group"] = self._groups(source, at)
        key = np.stack((table["group"], sender, receiver, table["tag"]))
        table["prev"] = np.arange(source.size) - 1
        table["prev"][np.append(True, (np.diff(key) != 0).any(axis=0))[: source.size]] = -1
        return table

    def splits(self) -> tuple[Int64, Int64]:
        """`split_ptr` and `splits`."""
        own = [self._matrix(op) for op in self.ops]
        ptr = pointers(np.array([matrix.size for matrix in own], np.int64))
        source = self.unordered[0][self.order]
        split_ptr = pointers(np.diff(ptr)[source])
        refuse_too_large(int(split_ptr[-1]), "all_to_all splits")
        whole = np.concatenate([np.empty(0, np.int64), *own])
        return split_ptr, whole[ranges(ptr[source], ptr[source + 1])]

    def _matrix(self, op: Op) -> Int64:
        """The bytes from each member to each, row-major."""
        of = self.orbits.seats[op.group.index]
        if op.call.kind is not OpKind.ALL_TO_ALL or of is None:
            return np.empty(0, np.int64)
        send = {member: np.array(post.call.send, np.int64) for member, post in op.posts.items()}
        rows = np.array([send[player] for player in of.player])
        return np.take_along_axis(rows, of.across, axis=1).ravel() * ITEMSIZE[op.call.dtype]

    @cached_property
    def _table(self) -> Table:
        """The ops of those that run."""
        return op_table(self.ops, {row: row for row in range(len(self.orbits.seats))})

    def _groups(self, source: Int64, at: Int64) -> Int64:
        """The group of each copy."""
        group = self.group[source]
        steps = self.orbits.steps[group]
        found: Int64 = self.orbits.index[self.orbits.index_ptr[group] + _value(at % steps, steps)]
        return found

    def _channels(self, source: Int64, at: Int64) -> tuple[Int64, Int64]:
        """The group ranks of the ends of each copy; -1 for collectives."""
        ends = np.full((2, source.size), -1)
        rows = np.flatnonzero(self.message[source])
        group = self.group[source[rows]]
        peers = self._peers(source[rows], at[rows])
        for of in np.unique(group):
            seats = self.orbits.seats[of]
            assert seats is not None, "a group with messages fits"
            chosen = group == of
            mine = rows[chosen]
            apart = self.folding.offset(at[mine] % self.orbits.steps[of])
            for side, ranks in enumerate(peers):
                ends[side, mine] = seats.places(ranks[chosen] - apart)
        return ends[0], ends[1]


def refuse_too_large(rows: int, what: str) -> None:
    """Raise NotFoldable if so many rows are more than a graph may have."""
    if rows > LARGEST:
        raise NotFoldable(f"all ranks together have {rows:,} {what}, the most is {LARGEST:,}; capture fewer iterations")


def _digits(values: Int64, radix: Int64) -> Int64:
    """Numbers as digits, the last one fastest; int64[values, dimensions]."""
    digits = np.empty_like(radix)
    for column in reversed(range(radix.shape[1])):
        values, digits[:, column] = np.divmod(values, radix[:, column])
    return digits


def _value(digits: Int64, radix: Int64) -> Int64:
    """The numbers that digits stand for."""
    values = np.zeros(len(digits), np.int64)
    for column in range(digits.shape[1]):
        values = values * radix[:, column] + digits[:, column]
    return values
