"""Rank 2 cannot read its data; the others wait for it."""

import torch
import torch.distributed as dist


def read(shard: int) -> torch.Tensor:
    if shard == 2:
        raise ValueError("shard 2 is unreadable")  # site B
    return torch.ones(8)


dist.init_process_group("gloo")
dist.barrier()
dist.all_reduce(read(dist.get_rank()))  # site A
