"""Rank 1 leaves out the second all_reduce, so its barrier meets the all_reduce of the others."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
loss = torch.ones(8)
dist.all_reduce(loss)
if dist.get_rank() != 1:
    dist.all_reduce(loss)  # site A
dist.barrier()  # site B
