"""What NCCL's calls hold the host for, which PRISM's own do not: measured in a rank's process, on a group of one.

By that much the host is less ahead of its device after a call (prism.gpu.cuda.compensated).

A group of one passes through all that torch's NCCL backend does on the host, and NCCL launches a kernel or a copy for
it. How NCCL plans a kernel among several members is left out, so that what is measured is rather too little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from prism.core.graph import OpKind

WARM_UPS, ROUNDS = 5, 25
ELEMENTS = 256
"""What is posted: the host takes as long for more."""

Post = Callable[[], Any]
"""Posts; returns the work object."""


@dataclass(frozen=True, slots=True)
class PostingCost:
    """Of each kind of post that was measured, and of a wait, in ns; nothing where nothing was."""

    posts: Mapping[OpKind, int]
    wait: int = 0

    def of(self, kind: OpKind) -> int:
        """Of a post; kinds that a group of one does not have cost what the middle one of the others does."""
        return self.posts.get(kind, round(statistics.median(self.posts.values())) if self.posts else 0)

    def told(self) -> dict[str, int]:
        """By name."""
        return {kind.name.lower(): ns for kind, ns in self.posts.items()} | ({"wait": self.wait} if self.posts else {})


NOTHING = PostingCost({})


def measured(posts: Mapping[OpKind, Post], now: Callable[[], int] = time.perf_counter_ns) -> PostingCost:
    """Post each again and again, and wait for it; the middle ones count."""
    found, waits = dict[OpKind, int](), list[int]()
    for kind, post in posts.items():
        times = [_once(post, now) for _ in range(WARM_UPS + ROUNDS)][WARM_UPS:]
        found[kind] = round(statistics.median(posted for posted, _ in times))
        waits += [waited for _, waited in times]
    return PostingCost(found, round(statistics.median(waits)))


def of_nccl() -> PostingCost:
    """Measure it on the device that the program uses; raises RuntimeError where NCCL cannot be had."""
    backend = getattr(torch.distributed, "ProcessGroupNCCL", None)
    if backend is None:
        raise RuntimeError("this torch is built without NCCL")
    group = backend(dist.HashStore(), 0, 1)
    try:
        return measured(dict(_posts(group)))
    finally:
        torch.cuda.current_stream().synchronize()
        group.shutdown()


def _once(post: Post, now: Callable[[], int]) -> tuple[int, int]:
    begun = now()
    work = post()
    posted = now()
    work.wait()
    return posted - begun, now() - posted


def _posts(group: Any) -> Iterator[tuple[OpKind, Post]]:
    given, into = (torch.zeros(ELEMENTS, device="cuda") for _ in range(2))
    launches = dist.AllreduceOptions()
    launches.reduceOp = dist._make_nccl_premul_sum(1.0)  # a sum of one member would be no kernel
    yield OpKind.ALL_REDUCE, lambda: group.allreduce([given], launches)
    yield OpKind.ALL_GATHER, lambda: group._allgather_base(into, given)
    yield OpKind.REDUCE_SCATTER, lambda: group._reduce_scatter_base(into, given)
    yield OpKind.BROADCAST, lambda: group.broadcast([given])
