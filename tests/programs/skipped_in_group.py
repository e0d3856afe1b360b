"""Rank 1 leaves out an all_reduce of a sub-group and is in the barrier of all ranks while rank 0 waits for it."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
group = dist.new_group([0, 1])
loss = torch.ones(8)
if dist.get_rank() < 2:
    dist.all_reduce(loss, group=group)
    if dist.get_rank() != 1:
        dist.all_reduce(loss, group=group)  # site A
dist.barrier()  # site B
