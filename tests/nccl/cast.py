"""All parties of one group in this process, a thread each, and the operations that they run together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from prism.core.graph import OpKind
from prism.gpu.pruned import Arc, Branches, Contribution, Member, Moved, Op, Pace, Peers, abort, arcs

PAIRWISE = (OpKind.GATHER, OpKind.SCATTER, OpKind.ALL_TO_ALL)


def address(tensor: torch.Tensor | None) -> int:
    """Where a tensor's elements lie; 0 for none."""
    return 0 if tensor is None else tensor.data_ptr()


def together(directory: Path, *calls: Callable[[], None]) -> None:
    """Run all at one time, and raise what the first to fail raised; then no other waits for it."""
    failures: list[BaseException] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as failure:
            failures.append(failure)
            abort(directory, f"another party has failed: {failure}")

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Cast:
    """A group of `size` members, of which those in `sandbox` are real."""

    def __init__(
        self, directory: Path, size: int, sandbox: Sequence[int], replicas: bool = False, nodes: Sequence[int] = ()
    ) -> None:
        self.directory, self.size, self.sandbox = directory, size, tuple(sandbox)
        who = (directory, "group", size, self.sandbox)
        self.members = {rank: Member(*who, rank, replicas, nodes) for rank in self.sandbox}
        self.arcs = {after: Arc(*who, after) for after in arcs(size, self.sandbox)}
        self.peers = {rank: Peers(*who, rank) for rank in self.sandbox}
        self.branches = {rank: Branches(*who, rank, nodes) for rank in self.sandbox}

    def run(
        self,
        op: Op | dict[int, Op],
        inputs: dict[int, torch.Tensor],
        outputs: dict[int, torch.Tensor],
        contribution: Contribution | dict[int, Contribution] | None = None,
        data: dict[int, torch.Tensor] | None = None,
        pace: Callable[[Sequence[int]], Pace] | None = None,
    ) -> dict[int, Moved]:
        """What each sandbox member moved. `contribution` by the member before the arc, or that keeps branches, `data`
        by member (Peers); `pace` makes one for an arc, or for the peers, of the given members."""
        moved: dict[int, Moved] = {}
        ops = op if isinstance(op, dict) else dict.fromkeys(self.sandbox, op)
        brought = contribution or Contribution.zeros()

        def member(rank: int) -> None:
            moved[rank] = self.members[rank].run(ops[rank], address(inputs.get(rank)), address(outputs.get(rank)))

        def arc(after: int, members: tuple[int, ...]) -> None:
            by_arc = brought[after] if isinstance(brought, dict) else brought
            self.arcs[after].run(ops[after], by_arc, pace(members) if pace else None)

        def peers(rank: int) -> None:
            paced = pace(range(self.size)) if pace else None
            self.peers[rank].run(ops[rank], address((data or {}).get(rank)), paced)

        def branches(rank: int) -> None:
            by_keeper = brought[rank] if isinstance(brought, dict) else brought
            self.branches[rank].run(ops[rank], by_keeper, pace(range(self.size)) if pace else None)

        real = [partial(member, rank) for rank in self.sandbox]
        if next(iter(ops.values())).kind in PAIRWISE:
            together(self.directory, *real, *(partial(peers, rank) for rank in self.sandbox))
        elif next(iter(ops.values())).tree:
            together(self.directory, *real, *(partial(branches, rank) for rank in self.sandbox))
        else:
            virtual = arcs(self.size, self.sandbox).items()
            together(self.directory, *real, *(partial(arc, after, members) for after, members in virtual))
        return moved


def at_once(members: Sequence[int], latency: int = 0, transfer: int = 0, post: int = 0) -> Pace:
    """All post at one time."""
    return Pace(np.full(len(members), post, np.int64), latency, transfer)
