"""Pruned collectives: what sandbox members and the virtual members between them do, by the engine in ext/nccl.

The parties of a group meet in a directory in memory, in any order. A sandbox member is a `Member`; the virtual members
between it and the next sandbox member are an `Arc`; the virtual members as its partners in gather, scatter and
all_to_all are its `Peers`. Messages go through a `Pipe`. All take part in an operation at one time, each on a thread of
its own, and a group's operations come in one order. Addresses are integers, 0 is none; times are ns of
`time.monotonic_ns()`. Calls give up the GIL, and signal handlers run while they block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prism.core.graph import DTYPES, REDUCES, OpKind
from prism.gpu import pruned_abi as abi
from prism.gpu.pruned_abi import Aborted, Mismatch, PeerLost

__all__ = [
    "Aborted", "Arc", "Contribution", "Member", "Mismatch", "Moved", "Op", "Pace", "PeerLost", "Peers", "Pipe", "abort",
    "arcs",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Op:
    """One member's side of a collective of `size` members; counts are elements.

    `count`: the tensor's (all_reduce, reduce, broadcast), one block's (scatter), else the own input's. `sends`: what
    goes to each member (reduce_scatter, all_to_all), `receives`: what comes from each (all_gather, gather,
    all_to_all); left out, the blocks are even. `root` is a group rank.
    """

    kind: OpKind
    size: int
    dtype: str = "none"
    reduce: str = "none"
    root: int = -1
    count: int = 0
    sends: tuple[int, ...] = ()
    receives: tuple[int, ...] = ()

    def c(self) -> abi.Op:
        """As the engine takes it."""
        if self.kind is OpKind.SEND_RECV:
            raise ValueError("a message is no collective; it goes through a Pipe")
        for name, counts in (("sends", self.sends), ("receives", self.receives)):
            if len(counts) not in (0, self.size):
                raise ValueError(f"{name} has {len(counts)} entries for {self.size} members")
        return abi.Op(
            self.kind, DTYPES.index(self.dtype), REDUCES.index(self.reduce), self.root, self.size, len(self.sends) > 0,
            len(self.receives) > 0, self.count, abi.array(self.sends), abi.array(self.receives),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contribution:
    """What an arc's members bring: addresses of arrays over the op's elements.

    Address 0 brings identities of the reduction, or zero bytes where data are passed on.
    """

    mode: int
    head: int = 0
    tail: int = 0
    final: int = 0

    @classmethod
    def exact(cls, before: int, final: int) -> Contribution:
        """The recorded running totals just before the sandbox member after the arc, then the recorded result."""
        return cls(0, head=before, final=final)

    @classmethod
    def left(cls, rest: int, final: int) -> Contribution:
        """The arc's last member carries the fold of all virtual members; in the other arcs rest is 0."""
        return cls(1, head=rest, final=final)

    @classmethod
    def prefolded(cls, head: int, tail: int, final: int) -> Contribution:
        """The arc's own inputs, folded: `head` of chunks that begin in it, `tail` of those that come in."""
        return cls(2, head=head, tail=tail, final=final)

    @classmethod
    def replicas(cls) -> Contribution:
        """Each virtual member has the input of the sandbox member before the arc, a Member with `replicas`."""
        return cls(3)

    @classmethod
    def zeros(cls) -> Contribution:
        """Nothing."""
        return cls.left(0, 0)


@dataclass(frozen=True, slots=True)
class Pace:
    """When virtual members post, and the cost of the whole op (prism.core.timeline.network.Costs), all in ns.

    `posts`: of an Arc's members in its order; for Peers, of all members of the group (those of sandbox members are
    not read).
    """

    posts: Int64
    latency: int
    transfer: int

    def c(self) -> abi.Pace:
        """As the engine takes it."""
        return abi.Pace(abi.array(self.posts), len(self.posts), self.latency, self.transfer)


class Moved(NamedTuple):
    """What an op moved at one party; steps are those in which it sent, or those in which it received if more."""

    steps: int
    sent_bytes: int
    received_bytes: int


class _Endpoint(AbstractContextManager["_Endpoint"]):
    """A handle of the engine; used by one thread at a time."""

    def __init__(self, handle: int | None) -> None:
        self._handle = handle
        if handle is None:
            raise ValueError(abi.library.pruned_error().decode())

    def close(self) -> None:
        """Let go of it; no operation may be running."""
        handle, self._handle = self._handle, None
        if handle is not None:
            abi.library.pruned_close(handle)

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def _run(self, start: Callable[..., int], *arguments: Any) -> Moved:
        if self._handle is None:
            raise ValueError("it is closed")
        abi.check(start(self._handle, *arguments))
        moved = abi.Moved()
        while (status := abi.library.pruned_wait(self._handle, moved)) == abi.PENDING:
            pass  # back in Python for a moment, so that signal handlers run
        abi.check(status)
        return Moved(max(moved.sends, moved.receives), moved.sent_bytes, moved.received_bytes)


class Member(_Endpoint):
    """A sandbox member's side of its group's collectives; `sandbox` are the sandbox members' group ranks, ascending.

    `group` is unique in the directory. With `replicas` its input is published for the arc after it.
    """

    def __init__(
        self, directory: str | Path, group: str, size: int, sandbox: Sequence[int], rank: int, replicas: bool = False
    ) -> None:
        super().__init__(
            abi.library.pruned_open_member(abi.membership(directory, group, size, sandbox, rank), replicas)
        )

    def run(self, op: Op, input: int = 0, output: int = 0) -> Moved:
        """Take part, and return when the output is there; the input may be the output, or its own part of it."""
        return self._run(abi.library.pruned_start_member, op.c(), input or None, output or None)


class Arc(_Endpoint):
    """The virtual members between the sandbox member `after` and the next one; ValueError if there are none."""

    def __init__(self, directory: str | Path, group: str, size: int, sandbox: Sequence[int], after: int) -> None:
        super().__init__(abi.library.pruned_open_arc(abi.membership(directory, group, size, sandbox, after)))

    def run(self, op: Op, contribution: Contribution, pace: Pace | None = None) -> Moved:
        """Take part in a collective that is not in pairs; without `pace` as fast as it goes."""
        brought = abi.Contribution(contribution.mode, contribution.head, contribution.tail, contribution.final)
        return self._run(abi.library.pruned_start_arc, op.c(), brought, pace and pace.c())


class Peers(_Endpoint):
    """The virtual members as partners of sandbox member `rank` in gather, scatter and all_to_all."""

    def __init__(self, directory: str | Path, group: str, size: int, sandbox: Sequence[int], rank: int) -> None:
        super().__init__(abi.library.pruned_open_peers(abi.membership(directory, group, size, sandbox, rank)))

    def run(self, op: Op, data: int = 0, pace: Pace | None = None) -> Moved:
        """Take part; `op` is the member's, `data` the address of its recorded result (0: it gets zeros)."""
        return self._run(abi.library.pruned_start_peers, op.c(), data or None, pace and pace.c())


class Pipe(_Endpoint):
    """One end of one direction of messages; `name` is unique in the directory."""

    def __init__(self, directory: str | Path, name: str) -> None:
        super().__init__(abi.library.pruned_open_pipe(str(directory).encode(), name.encode()))

    def send(self, address: int, nbytes: int, start: int = 0, duration: int = 0) -> None:
        """Send (address 0: zeros), nothing before `start`, the last byte `duration` ns after it."""
        self._run(abi.library.pruned_start_send, address or None, nbytes, start, duration)

    def recv(self, address: int, nbytes: int) -> None:
        """Receive (address 0: and drop) a message of this size; raises Mismatch if it has another."""
        self._run(abi.library.pruned_start_receive, address or None, nbytes)


def abort(directory: str | Path) -> None:
    """End all calls on this directory, now and later: they raise Aborted."""
    abi.check(abi.library.pruned_abort(str(directory).encode()))


def arcs(size: int, sandbox: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The virtual members after each sandbox member that has some, in the order of the ring."""
    following = [*sandbox[1:], sandbox[0] + size]
    spans = {a: tuple(r % size for r in range(a + 1, b)) for a, b in zip(sandbox, following, strict=True)}
    return {after: members for after, members in spans.items() if members}
