"""The debug mode in which torch compares the calls of all ranks before it makes them."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from checking import check, main


@check("TORCH_DISTRIBUTED_DEBUG=DETAIL")
def detail() -> object:
    assert dist.get_debug_level() == dist.DebugLevel.DETAIL
    data = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(data)
    group = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        dist.all_reduce(data, group=group)
    dist.barrier()
    return data


if __name__ == "__main__":
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    main()
