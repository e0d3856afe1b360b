"""What the world hears (events) and what it says (instructions): two closed unions, plain data, nothing else.

An event tells what a rank did or what became of it; `at` is the driver's clock in ns when the event came in. An
instruction tells a worker or a rank what to do; `cause` is the number of the event that led to it. Every instruction
ends in an event: Launch in Launched or Exited, Run and Answer in whatever the rank does next, Deliver in Delivered,
Fold in Folded, Suspend in Suspended, Probe in Probed, Spill in Spilled,
PageOut in PagedOut, PageIn in PagedIn, Kill and Leave in Exited; Resume and Release
end when heard.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from prism.core.contribution import Part
from prism.core.graph import OpKind


class Ref(msgspec.Struct, array_like=True, frozen=True):
    """Bytes of the payload store: a file, an offset in it and a size in bytes."""

    file: str
    offset: int
    nbytes: int

    def part(self, offset: int, nbytes: int) -> Ref:
        """A piece of these bytes, `offset` bytes in."""
        return Ref(self.file, self.offset + offset, nbytes)


class Call(msgspec.Struct, array_like=True, frozen=True):
    """One rank's side of an operation, in elements of `dtype`; ranks are group ranks, -1 is none (or any source)."""

    kind: OpKind
    dtype: str = "none"
    count: int = 0  # own input; of a receive: the size awaited
    reduce: str = "none"
    root: int = -1
    peer: int = -1
    tag: int = 0
    sends: bool = False
    send: tuple[int, ...] = ()  # elements for each member: all_to_all, uneven reduce_scatter
    recv: tuple[int, ...] = ()  # elements awaited from each member: all_gather, gather at the root, all_to_all
    shape: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """How a user would name the operation."""
        if self.kind is OpKind.SEND_RECV:
            return "send" if self.sends else "recv"
        return self.kind.name.lower()


class StoreCall(msgspec.Struct, array_like=True, frozen=True):
    """One call of the key-value store: set, get, add, wait, check, compare_set, delete, count, append."""

    action: str
    keys: tuple[str, ...] = ()
    value: bytes = b""
    desired: bytes = b""
    amount: int = 0


class Reply(NamedTuple):
    """What a caller of the store gets: a value, a number, and whether the key was there."""

    value: bytes = b""
    number: int = 0
    present: bool = True
    error: str = ""  # what the caller raises


class Event(msgspec.Struct, tag=True, array_like=True, kw_only=True, frozen=True):
    """Base of all events."""

    rank: int
    at: int = 0


def stamp(event: Event, at: int) -> None:
    """Note when an event came in, in ns of the driver's clock; done once, by the driver."""
    msgspec.structs.force_setattr(event, "at", at)


def share(event: Posted, calls: dict[Call, Call]) -> None:
    """Let a post hold the call that is equal in `calls`: most ranks make the same, as long as their group is large."""
    msgspec.structs.force_setattr(event, "call", calls.setdefault(event.call, event.call))


class Launched(Event, frozen=True):
    """The process of the rank exists."""

    pid: int


class Joined(Event, frozen=True):
    """The rank made a process group object; `ranks` are global, by group rank."""

    group: str
    ranks: tuple[int, ...]
    backend: str


class Posted(Event, frozen=True):
    """The rank posted its side of an operation; `handle` is the rank's own number for it."""

    group: str
    handle: int
    call: Call
    payload: Ref | None = None
    site: str = ""
    compute: int = 0  # ns of the main thread since the last step of its record
    batch: int = 0  # the rank's number of the batch that the post is part of; 0 for none
    staged: bool = True  # whether the payload's bytes are there already; else a Staged follows
    checksum: int = 0  # of the payload, where the rank is told to compute it


class Staged(Event, frozen=True):
    """The payload of an operation that the rank posted before is there, and may be read."""

    handle: int


class Waited(Event, frozen=True):
    """The rank waits for operations it posted; with `blocks` it goes on only after a Run."""

    handles: tuple[int, ...]
    blocks: bool
    site: str = ""
    compute: int = 0


class Polled(Event, frozen=True):
    """The rank asked whether an operation is done and it was not: it yields its slot until a Run."""

    handle: int
    site: str = ""


class Asked(Event, frozen=True):
    """The rank called the store and goes on after an Answer; not `main`: another thread did, and the rank goes on."""

    request: StoreCall
    number: int = 0  # the rank's own number for the call
    main: bool = True
    site: str = ""


class Marked(Event, frozen=True):
    """An iteration of the rank ended; `wall` is its own monotonic clock then, in ns, where wall time counts."""

    compute: int = 0
    wall: int = 0


class Timed(Event, frozen=True):
    """What the device took before each step of the rank's record from number `first` on, in ns.

    It is known some time after the steps were told, and counts instead of their `compute`; -1 where that counts.
    """

    first: int
    durations: tuple[int, ...]


class ClockState(msgspec.Struct, array_like=True, frozen=True):
    """The state of a device at one moment."""

    sm_mhz: int
    power_w: int
    temperature_c: int


class Clocked(Event, frozen=True):
    """How the rank's device ran while the rank was timed; `throttled`: why it ran slower than it could, at any time."""

    before: ClockState
    after: ClockState
    throttled: tuple[str, ...] = ()


class Folded(Event, frozen=True):
    """The rank did the arithmetic of an operation: one result for all members, or one for each, and partial sums."""

    op: int
    results: tuple[Ref, ...]
    parts: tuple[Ref, ...] = ()


class Delivered(Event, frozen=True):
    """The rank has the result of an operation in its tensors, and the callbacks on it have run."""

    handle: int


class Completed(Event, frozen=True):
    """The rank has carried out an operation itself, without a Deliver, and has its result."""

    handle: int


class Noticed(Event, frozen=True):
    """The rank saw something that passes here and may not elsewhere."""

    kind: str
    summary: str


class Raised(Event, frozen=True):
    """The program of the rank raised; the process ends next."""

    error: str
    traceback: str
    site: str = ""
    peak_bytes: int | None = None
    peak_breakdown: PeakBreakdown | None = None
    reserved_bytes: int | None = None
    snapshot: str = ""  # the file with what its memory held, where it ran out of it


class PeakBreakdown(msgspec.Struct, kw_only=True, frozen=True):
    """What a rank's peak of memory was made of, in bytes; see result.json in docs/architecture.md."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    other: int


class Broke(Event, frozen=True):
    """Our own part of the rank's process has failed, not its program."""

    reason: str


class Finished(Event, frozen=True):
    """The program of the rank is over; the process waits for Leave."""

    code: int
    cut: bool = False  # ended by us, after the last iteration that was wanted
    peak_bytes: int | None = None
    peak_breakdown: PeakBreakdown | None = None
    reserved_bytes: int | None = None


class Exited(Event, frozen=True):
    """The process of the rank is gone: its exit code, or minus the signal."""

    code: int


class Suspended(Event, frozen=True):
    """The process of the rank is stopped, and all it said before has been heard."""


class Probed(Event, frozen=True):
    """Whether the main thread of the rank sleeps in a futex, poll or receive."""

    waiting: bool


class Weighed(Event, frozen=True):
    """The rank holds so much host memory for itself, in bytes, and is about to wait."""

    nbytes: int
    shared: int = 0  # what all ranks have in common


class Spilled(Event, frozen=True):
    """The rank has spilled what it could, and holds so much, in bytes; `error`: why it could not."""

    nbytes: int
    error: str = ""


class Pressed(Event, frozen=True):
    """The rank takes so many bytes of a device that has only `free` left, few or too few, and waits for Room."""

    nbytes: int
    free: int = 0


class PagedOut(Event, frozen=True):
    """The rank's device memory is in host memory, or has gone from there to disk; with an `error` it is where it was.

    nbytes of it, which took ns; `free` is what the device has left then. `full`: host memory could not hold it.
    """

    nbytes: int = 0
    ns: int = 0
    free: int = 0
    disk: bool = False
    error: str = ""
    full: bool = False


class PagedIn(Event, frozen=True):
    """The rank's memory is on the device again, from host memory or from disk; with an `error` it is where it was.

    `full`: the device had no room for it.
    """

    nbytes: int = 0
    ns: int = 0
    free: int = 0
    disk: bool = False
    error: str = ""
    full: bool = False


class Ticked(Event, frozen=True):
    """Time passed (`rank` is -1)."""


class Interrupted(Event, frozen=True):
    """The user wants the run to end (`rank` is -1)."""


AnyEvent = (
    Launched | Joined | Posted | Staged | Waited | Polled | Asked | Marked | Timed | Clocked | Folded | Delivered
    | Completed | Noticed | Raised | Broke | Finished | Exited | Suspended | Probed | Weighed | Spilled | Pressed
    | PagedOut | PagedIn | Ticked | Interrupted
)  # fmt: skip


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
