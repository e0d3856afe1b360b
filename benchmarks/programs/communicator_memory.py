"""One rank that tells what NCCL takes of its GPU: for a communicator, its first sum, its first exchange.

    python communicator_memory.py     under the variables of torchrun

Ranks that share a GPU are counted together, so each has its part; no process may use it besides. Prints
`MEMORY {json}`: bytes for each of the three.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import torch
import torch.distributed as dist

COUNT = 1 << 24


def taken(step: Callable[[], object], sharing: int) -> int:
    """What the GPU has less of after a step of all ranks, for each of those that share it."""
    torch.cuda.synchronize()
    dist.barrier()
    before, _ = torch.cuda.mem_get_info()
    dist.barrier()
    step()
    torch.cuda.synchronize()
    dist.barrier()
    after, _ = torch.cuda.mem_get_info()
    return (before - after) // sharing


def main() -> None:
    """One rank."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    sharing = -(-size // torch.cuda.device_count())
    given = torch.zeros(COUNT, device="cuda")
    got = torch.empty_like(given)
    got.copy_(given).add_(1)  # what torch loads for its first kernels is not NCCL's
    device = torch.device("cuda", torch.cuda.current_device())
    groups: list[dist.ProcessGroup | None] = []

    def make() -> None:
        groups.append(dist.new_group(backend="nccl", device_id=device))

    found = {"made": taken(make, sharing)}
    found["rings"] = taken(lambda: dist.all_reduce(given, group=groups[0]), sharing)
    found["messages"] = taken(lambda: dist.all_to_all_single(got, given, group=groups[0]), sharing)
    print("MEMORY", json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
