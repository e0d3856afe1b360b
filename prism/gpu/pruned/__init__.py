"""Pruned collectives: what sandbox members and the virtual members between them do, by the engine in ext/nccl.

The parties of a group meet in a directory in memory, in any order. A sandbox member is a `Member`; the virtual members
between it and the next sandbox member are an `Arc`; the virtual members as its partners in gather, scatter and
all_to_all are its `Peers`. An all_reduce may run along two trees instead of a ring: what is left of the trees without
the sandbox members are the members' `Branches`. Messages go through a `Pipe`. All take part in an operation at one
time, each on a thread of its own, and a group's operations come in one order. Addresses are integers, 0 is none; times
are ns of `time.monotonic_ns()`. Calls give up the GIL, and signal handlers run while they block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from prism.gpu.pruned import abi
from prism.gpu.pruned.abi import Aborted, Mismatch, PeerLost
from prism.gpu.pruned.op import Contribution, Int64, Op, Pace

__all__ = [
    "Aborted", "Arc", "Branches", "Contribution", "Int64", "Member", "Mismatch", "Moved", "Op", "Pace", "PeerLost",
    "Peers", "Pipe", "abort", "arcs", "cause",
]  # fmt: skip

GRACE_S = 2.0
"""How long who lost a peer, or met one that does something else, lets those speak who know why."""
_LOOK_S = 0.01


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

    `group` is unique in the directory. With `replicas` its input is published for the arc after it, or its branches; of
    a broadcast that it is not the root of, its output.
    `nodes`: the node of each member, for trees; left out, each is on a node of its own.
    """

    def __init__(
        self,
        directory: str | Path,
        group: str,
        size: int,
        sandbox: Sequence[int],
        rank: int,
        replicas: bool = False,
        nodes: Sequence[int] = (),
    ) -> None:
        party = abi.membership(directory, group, size, sandbox, rank, nodes)
        super().__init__(abi.library.pruned_open_member(party, replicas))

    def run(self, op: Op, input: int = 0, output: int = 0) -> Moved:
        """Take part, and return when the output is there; the input may be the output, or its own part of it."""
        return self._run(abi.library.pruned_start_member, op.c(), input or None, output or None)


class Arc(_Endpoint):
    """The virtual members between the sandbox member `after` and the next one; ValueError if there are none."""

    def __init__(self, directory: str | Path, group: str, size: int, sandbox: Sequence[int], after: int) -> None:
        super().__init__(abi.library.pruned_open_arc(abi.membership(directory, group, size, sandbox, after)))

    def run(self, op: Op, contribution: Contribution, pace: Pace | None = None) -> Moved:
        """Take part in a collective that is not in pairs; without `pace` as fast as it goes."""
        return self._run(abi.library.pruned_start_arc, op.c(), contribution.c(), pace and pace.c())


class Branches(_Endpoint):
    """The virtual members that sandbox member `rank` keeps: the branches below it, and maybe the one with the root."""

    def __init__(
        self,
        directory: str | Path,
        group: str,
        size: int,
        sandbox: Sequence[int],
        rank: int,
        nodes: Sequence[int] = (),
    ) -> None:
        party = abi.membership(directory, group, size, sandbox, rank, nodes)
        super().__init__(abi.library.pruned_open_branches(party))

    def run(self, op: Op, contribution: Contribution, pace: Pace | None = None) -> Moved:
        """Take part in an all_reduce along trees; without `pace` as fast as it goes."""
        return self._run(abi.library.pruned_start_branches, op.c(), contribution.c(), pace and pace.c())


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


def abort(directory: str | Path, reason: str) -> None:
    """End all calls on this directory, now and later, in whatever process: they raise Aborted, with the first reason.

    Raises OSError if the directory has gone.
    """
    abi.check(abi.library.pruned_abort(str(directory).encode(), reason.encode()))


def cause(directory: str | Path, lost: PeerLost) -> PeerLost | Aborted:
    """What a peer's loss comes of: whoever knows aborts within GRACE_S; else nobody does."""
    give_up = time.monotonic() + GRACE_S
    while True:
        try:
            abi.check(abi.library.pruned_check(str(directory).encode()))
        except Aborted as aborted:
            return aborted
        if time.monotonic() >= give_up:
            return lost
        time.sleep(_LOOK_S)


def arcs(size: int, sandbox: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The virtual members after each sandbox member that has some, in the order of the ring."""
    following = [*sandbox[1:], sandbox[0] + size]
    spans = {a: tuple(r % size for r in range(a + 1, b)) for a, b in zip(sandbox, following, strict=True)}
    return {after: members for after, members in spans.items() if members}
