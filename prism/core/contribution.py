"""What the ranks that will not run in an emulation put into a sum: which partial sums of a capture stand for them.

The sandbox ranks of a group cut its ring into *arcs*, the runs of virtual members from one sandbox rank to the next.
A chunk's sum passes through the members in the order of prism.core.ring. What a partial sum holds is said by places in
that order, so it differs from chunk to chunk.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Field = Literal["before", "after", "rest"]
"""Where in a step of the record a partial sum is noted."""

REDUCING = ("exact", "left", "prefolded")
"""Contributions that are made of partial sums; the others need nothing."""


class Part(msgspec.Struct, array_like=True, frozen=True):
    """A sum of some members' inputs, for every chunk of an operation; `member` is -1 where it is for all of them.

    before: those ahead of a sandbox member, if they are at most `reach`. after: the next `reach` behind it, or fewer
    where the chunk ends. rest: all; in each case without the members that are `left_out`.
    """

    field: Field
    member: int
    reach: int
    left_out: tuple[int, ...] = ()

    def places(self, owner: int, size: int) -> range:
        """The places, in the order of the chunk that `owner` owns, whose inputs it holds; none: it is not defined."""
        at = (self.member - owner - 1) % size
        if self.field == "before":
            return range(at if at <= self.reach else 0)
        if self.field == "after":
            return range(at + 1, min(at + 1 + self.reach, size))
        return range(size)


def arcs(sandbox: tuple[int, ...], size: int) -> list[tuple[int, int, int]]:
    """Each sandbox member, the next one round the ring, and how many virtual members lie between them; 0: no arc."""
    after = [*sandbox[1:], *sandbox[:1]]
    return [(a, b, (b - a - 1) % size) for a, b in zip(sandbox, after, strict=True)]


def parts(contribution: str, sandbox: tuple[int, ...], size: int) -> tuple[Part, ...]:
    """What to keep of an operation of `size` members; `sandbox` are the group ranks of those that will run, ascending.

    exact: all that comes to a sandbox member that has an arc on its left. prefolded: each arc's sum ahead of the member
    at its end, and behind the one at its begin. left: one sum of all virtual members.
    """
    between = [(a, b, length) for a, b, length in arcs(sandbox, size) if length]
    if contribution == "exact":
        return tuple(Part("before", b, size - 1) for _, b, _ in between)
    if contribution == "prefolded":
        heads = [Part("before", b, length) for _, b, length in between]
        return (*heads, *(Part("after", a, length) for a, _, length in between))
    if contribution == "left" and between:
        return (Part("rest", -1, size, sandbox),)
    return ()
