"""What the world says: instructions to a worker or a rank, a closed union of plain data.

`cause` is the number of the event that led to an instruction. Every instruction ends in an event: Launch in Launched or
Exited, Run and Answer in whatever the rank does next, Deliver in Delivered, Fold in Folded, Suspend in Suspended, Probe
in Probed, Spill in Spilled, PageOut in PagedOut, PageIn in PagedIn, Kill and Leave in Exited; Resume, Release and Room
end when heard.
"""

from __future__ import annotations

import msgspec

from prism.core.calls import Ref
from prism.core.contribution import Part
from prism.core.graph import OpKind


class Instruction(msgspec.Struct, tag=True, array_like=True, kw_only=True, frozen=True):
    """Base of all instructions."""

    rank: int
    cause: int = 0


class Launch(Instruction, frozen=True):
    """Start the process of the rank."""


class Run(Instruction, frozen=True):
    """Go on: what was waited for is there and a slot is free."""


class Deliver(Instruction, frozen=True):
    """The operation is done; copy the result, if there is one for this rank, or make one up if nobody has kept it."""

    handle: int
    result: Ref | None = None
    blocks: tuple[int, ...] = ()  # bytes from each member, where they are fewer than the rank has room for
    source: int = -1  # of a message that came: the group rank of its sender
    synthesised: bool = False


class Fold(Instruction, frozen=True):
    """All members have posted: do the arithmetic, in ring order, over inputs given by group rank."""

    op: int
    kind: OpKind
    dtype: str
    reduce: str
    root: int
    inputs: tuple[Ref | None, ...]
    splits: tuple[tuple[int, ...], ...] = ()  # elements from each member to each member
    parts: tuple[Part, ...] = ()  # partial sums to keep beside the result
    routes: tuple[tuple[Ref, ...], ...] = ()  # instead of inputs: what each result is put together from


class Answer(Instruction, frozen=True):
    """The store's reply to a call of the rank; `present` is false for a key that is not there."""

    call: int
    value: bytes = b""
    number: int = 0
    present: bool = True
    error: str = ""


class Release(Instruction, frozen=True):
    """Nobody needs these bytes of the rank any more; ends when heard."""

    payload: Ref


class Suspend(Instruction, frozen=True):
    """Stop the process of the rank where it is."""


class Resume(Instruction, frozen=True):
    """Let the stopped process of the rank go on."""


class Probe(Instruction, frozen=True):
    """Look whether the main thread of the rank waits."""


class Spill(Instruction, frozen=True):
    """Write the memory of the rank, which waits, to its spill file."""


class PageOut(Instruction, frozen=True):
    """Give the device memory of the rank back, and keep a copy of it; `disk`: what host memory has of it, on disk."""

    disk: bool = False


class PageIn(Instruction, frozen=True):
    """Bring the rank's memory back to the device; `beside`: another rank is making room for it at this moment."""

    beside: bool = False


class Room(Instruction, frozen=True):
    """Try again to get device memory, or, not granted, do without; ends when heard."""

    granted: bool = True


class Leave(Instruction, frozen=True):
    """The rank may exit."""


class Kill(Instruction, frozen=True):
    """End the process of the rank at once."""


AnyInstruction = (
    Launch | Run | Deliver | Fold | Answer | Release | Suspend | Resume | Probe | Spill | PageOut | PageIn | Room
    | Leave | Kill
)  # fmt: skip
