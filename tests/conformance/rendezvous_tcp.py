"""The start by an address; a program of its own, since it meets at the address that env:// would take."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from checking import check, main

ADDRESS = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"


@check("init by tcp://")
def by_address() -> object:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=ADDRESS, rank=rank, world_size=world)
    data = torch.tensor([rank + 1.0])
    dist.all_reduce(data)
    return data


if __name__ == "__main__":
    main(group=False)
