"""Times single operations of gloo: loopback.py REPETITIONS CALLERS.

What comes before a post is a sleep if CALLERS is `slept`: all ranks but one post and wait, the last one comes out of a
longer sleep, and they take turns at that. If it is `awake`, it is a piece of compute, the same on all ranks, and who
comes last is left to chance. It is gloo's own method that is called, as torch's Python in front of it is part of what
PRISM times as compute.

Prints `OP <collective> <bytes> <called> <returned> <done>` for each operation on each rank: the bytes as a table of
costs counts them; when gloo was called, when it returned, and when the wait was over, in ns of the monotonic clock that
all ranks of one host share.
"""

import sys
import time

import torch
import torch.distributed as dist
from computing import compute

EARLY, LATE = 3e-3, 6e-3  # seconds of sleep; the difference is far more than the ranks come apart in a barrier
SIZES = (4, 256, 4096, 65536, 1 << 20)  # bytes of an input, or near that

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
gloo = dist.group.WORLD._get_backend(torch.device("cpu"))


def operations(size):
    """Name, bytes and call of each operation on inputs of about this size."""
    share = max(1, size // 4 // world)
    whole, part, message = torch.zeros(share * world), torch.zeros(share), torch.zeros(size // 4)
    even = [share] * world
    yield "all_reduce", 4 * whole.numel(), lambda: gloo.allreduce([whole])
    yield "reduce_scatter", 4 * whole.numel(), lambda: gloo._reduce_scatter_base(part, whole)
    yield "all_gather", 4 * share, lambda: gloo._allgather_base(whole, part)
    yield "all_to_all", 4 * share * (world - 1), lambda: gloo.alltoall_base(whole, whole.clone(), even, even)
    yield "broadcast", size, lambda: gloo.broadcast([message], opts=from_first)
    shares = [] if rank else [list(whole.chunk(world))]
    yield "scatter", 4 * whole.numel(), lambda: gloo.scatter([part], shares, opts=dealt_by_first)
    if world == 2:
        yield "send_recv", size, lambda: gloo.recv([message], 0, 0) if rank else gloo.send([message], 1, 0)


def come(late):
    """What a rank does before it posts."""
    if callers == "awake":
        compute()
    else:
        time.sleep(LATE if late else EARLY)


def timed(post, last):
    """When the operation was called, had been posted, and was done, in ns."""
    gloo.barrier().wait()
    come(rank == last)
    called = time.monotonic_ns()
    work = post()
    returned = time.monotonic_ns()
    work.wait()
    return called, returned, time.monotonic_ns()


repetitions, callers = int(sys.argv[1]), sys.argv[2]
from_first, dealt_by_first = dist.BroadcastOptions(), dist.ScatterOptions()
from_first.rootRank = dealt_by_first.rootRank = 0
for size in SIZES:
    for name, nbytes, post in operations(size):
        for repetition in range(repetitions):
            print("OP", name, nbytes, *timed(post, repetition % world))
for repetition in range(repetitions):
    print("OP", "barrier", 0, *timed(gloo.barrier, repetition % world))
dist.destroy_process_group()
