"""What the world hears: events, a closed union of plain data.

An event tells what a rank did or what became of it; `at` is the driver's clock in ns when the event came in.
"""

from __future__ import annotations

import msgspec

from prism.core.calls import Call, Ref, StoreCall


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
    main: bool = True  # else another thread than the main one has posted it
    settled: bool = False  # whether the rank has made its result up, and is told of none


class Staged(Event, frozen=True):
    """The payload of an operation that the rank posted before is there, and may be read; `checksum` as of a Posted."""

    handle: int
    checksum: int = 0


class Waited(Event, frozen=True):
    """The rank waits for operations it posted; with `blocks` it goes on only after a Run.

    `beside`: in a stream beside the program's own, which is no step of its record; it waits for them later.
    """

    handles: tuple[int, ...]
    blocks: bool
    site: str = ""
    compute: int = 0
    beside: bool = False


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
    `walls`: where wall time counts, when the device had come to each mark, in place of those that were told with them.
    `hosts`: of steps before which the host was held ahead of its device, the number and what the host needs for what
    was timed, ns or measuring.segments.WAITED; of those in an iteration that does not count, AFTER.
    """

    first: int
    durations: tuple[int, ...]
    walls: tuple[int, ...] = ()
    hosts: tuple[tuple[int, int], ...] = ()


class ClockState(msgspec.Struct, array_like=True, frozen=True):
    """The state of a device at one moment."""

    sm_mhz: int
    power_w: int
    temperature_c: int


class Clocked(Event, frozen=True):
    """How the rank's device ran while the rank was timed; `throttled`: why it ran slower than it could, at any time.

    At `idle` of its `steps` the device had nothing left to do. `posting`: how long NCCL's calls hold the host, in ns.
    """

    before: ClockState
    after: ClockState
    throttled: tuple[str, ...] = ()
    posting: dict[str, int] = {}
    idle: int = 0
    steps: int = 0


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
    """The program of the rank is over; the process waits for Leave.

    `said`: what it gave sys.exit instead of a code; `site`: where it was called, unless the code is 0. `ran`, `queued`:
    how long its main thread ran, and could have run and had no core, in ns; 0 where that is not known.
    """

    code: int
    cut: bool = False  # ended by us, after the last iteration that was wanted
    peak_bytes: int | None = None
    peak_breakdown: PeakBreakdown | None = None
    reserved_bytes: int | None = None
    said: str = ""
    site: str = ""
    ran: int = 0
    queued: int = 0


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
    device: int = 0


class Paged(Event, frozen=True):
    """The rank's device memory was moved: nbytes of it, which took ns; `free` is what its device has left then.

    `disk`: between host memory and disk. With an `error` it is where it was; `full`: as there was no room for it.
    """

    nbytes: int = 0
    ns: int = 0
    free: int = 0
    device: int = 0
    disk: bool = False
    error: str = ""
    full: bool = False


class PagedOut(Paged, frozen=True):
    """It is in host memory, or has gone from there to disk; `full` is of host memory."""


class PagedIn(Paged, frozen=True):
    """It is on the device again, from host memory or from disk; `full` is of the device."""


class Ticked(Event, frozen=True):
    """Time passed (`rank` is -1)."""


class Interrupted(Event, frozen=True):
    """The user wants the run to end (`rank` is -1)."""


AnyEvent = (
    Launched | Joined | Posted | Staged | Waited | Polled | Asked | Marked | Timed | Clocked | Folded | Delivered
    | Completed | Noticed | Raised | Broke | Finished | Exited | Suspended | Probed | Weighed | Spilled | Pressed
    | PagedOut | PagedIn | Ticked | Interrupted
)  # fmt: skip
