"""What the record of a capture keeps: which results, and what else of sums for an emulation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from prism.core.contribution import REDUCING, Part, parts

SMALL_BYTES = 4096
"""Floating-point results up to here may steer a program: losses, norms, flags of overflow."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: results of `payloads`, and partial sums for an emulation of the ranks `sandbox`, ascending."""

    payloads: str = "all"  # all control none
    sandbox: tuple[int, ...] = ()
    contribution: str = "zeros"

    def keeps(self, dtype: str, nbytes: int) -> bool:
        """Whether a result of so many bytes stays in the record.

        All do, or those that can steer the program: integers and truth values, for sizes, flags and pickled objects
        come as these, and, but for `none`, floating-point results that are small.
        """
        if self.payloads == "all" or not dtype.startswith(("float", "bfloat", "complex")):
            return True
        return nbytes <= (SMALL_BYTES if self.payloads == "control" else 0)

    def parts(self, ranks: Sequence[int]) -> tuple[Part, ...]:
        """The partial sums to keep of a reduction; `ranks` are the members' global ranks."""
        members = tuple(member for member, rank in enumerate(ranks) if rank in self.sandbox)
        return parts(self.contribution, members, len(ranks))

    def covers(self, other: Kept) -> bool:
        """Whether a record that was made like this has what the other needs."""
        if self.payloads != other.payloads:
            return False
        needs = other.sandbox and other.contribution in REDUCING
        return not needs or (self.sandbox, self.contribution) == (other.sandbox, other.contribution)


EVERYTHING = Kept()
"""All results, and nothing for an emulation."""


class PayloadCount(msgspec.Struct, kw_only=True):
    """Bytes of results that the record keeps, partial sums included, and of those that it does not; and their ops."""

    kept_bytes: int = 0
    dropped_bytes: int = 0
    synthesised_ops: int = 0
