"""Times single operations of gloo on ranks that do nothing else: loopback.py REPETITIONS.

All ranks but one post an operation and wait; the last one comes out of a sleep a little later, and they take turns at
that. It is gloo's own method that is called, as torch's Python in front of it is part of what PRISM times as compute.
Prints `OP <collective> <bytes> <called> <returned> <done>` for each operation on each rank: the bytes as a table of
costs counts them; when gloo was called, when it returned, and when the wait was over, in ns of the monotonic clock that
all ranks of one host share.
"""

import sys
import time

import torch
import torch.distributed as dist

EARLY, LATE = 3e-3, 6e-3  # seconds before a post; the difference is far more than the ranks come apart in a barrier
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
    if world == 2:
        yield "send_recv", size, lambda: gloo.recv([message], 0, 0) if rank else gloo.send([message], 1, 0)


def timed(post, last):
    """When the operation was called, had been posted, and was done, in ns."""
    gloo.barrier().wait()
    time.sleep(LATE if rank == last else EARLY)
    called = time.monotonic_ns()
    work = post()
    returned = time.monotonic_ns()
    work.wait()
    return called, returned, time.monotonic_ns()


from_first = dist.BroadcastOptions()
from_first.rootRank = 0
for size in SIZES:
    for name, nbytes, post in operations(size):
        for repetition in range(int(sys.argv[1])):
            print("OP", name, nbytes, *timed(post, repetition % world))
for repetition in range(int(sys.argv[1])):
    print("OP", "barrier", 0, *timed(gloo.barrier, repetition % world))
dist.destroy_process_group()
