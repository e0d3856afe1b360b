"""One rank that measures what NCCL's operations cost on links between GPUs, as the network model means it.

    python links.py [COLLECTIVE|BYTES...]     under the variables of torchrun; bytes are those of a member's input

The device has work queued before and behind each operation, as in a job that the host runs ahead of. The time is that
of the program's stream from before the post to after the wait; the rank that comes last counts, so it is the shortest
of all ranks. Prints `LINKS {json}`: by collective and bytes the times in microseconds, in one order on all ranks.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.programs.held import turn

SIZES = [4096, 65536, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28]
BEFORE_CYCLES = 400_000  # some 200 us: the host is ahead, and the ranks have met
WARM_UPS, ROUNDS = 5, 25

Operation = Callable[[], None]


def operations(size: int, rank: int, nbytes: int) -> Iterator[tuple[str, Operation]]:
    """Each collective on bfloat16 inputs of so many bytes."""
    count = nbytes // 2
    given = torch.zeros(count, dtype=torch.bfloat16, device="cuda")
    whole = torch.empty(count * size, dtype=torch.bfloat16, device="cuda")
    part = torch.empty(count // size, dtype=torch.bfloat16, device="cuda")
    yield "all_reduce", lambda: waited(dist.all_reduce(given, async_op=True))
    yield "all_gather", lambda: waited(dist.all_gather_into_tensor(whole, given, async_op=True))
    yield "reduce_scatter", lambda: waited(dist.reduce_scatter_tensor(part, given, async_op=True))
    yield "broadcast", lambda: waited(dist.broadcast(given, 0, async_op=True))
    # What a member sends to itself does not count: with two of them, twice as much goes in.
    blocks = torch.empty(count * size // (size - 1), dtype=torch.bfloat16, device="cuda")
    yield "all_to_all", lambda: waited(dist.all_to_all_single(torch.empty_like(blocks), blocks, async_op=True))
    if rank < 2:
        yield "send_recv", lambda: waited(dist.isend(given, 1) if rank == 0 else dist.irecv(given, 0))


def waited(work: Any) -> None:
    """The program's stream waits for it."""
    work.wait()


def times_us(operation: Operation) -> list[float]:
    """Of the stream, one for each round."""
    found = []
    for number in range(WARM_UPS + ROUNDS):
        begin, end = _event(), _event()
        dist.barrier()
        torch.cuda.synchronize()
        torch.cuda._sleep(BEFORE_CYCLES)  # type: ignore[no-untyped-call]
        begin.record()
        operation()
        end.record()
        torch.cuda._sleep(1000)  # type: ignore[no-untyped-call]
        end.synchronize()
        if number >= WARM_UPS:
            found.append(begin.elapsed_time(end) * 1e3)
    return found


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def main() -> None:
    """One rank."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    found: dict[str, dict[int, list[float]]] = {}
    wanted = [word for word in sys.argv[1:] if not word.isdigit()]
    dist.barrier()
    with turn():
        for nbytes in [int(word) for word in sys.argv[1:] if word.isdigit()] or SIZES:
            for name, operation in operations(size, rank, nbytes):
                if not wanted or name in wanted:
                    found.setdefault(name, {})[nbytes] = times_us(operation)
    print("LINKS", json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
