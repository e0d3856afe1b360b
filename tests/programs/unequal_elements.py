"""Rank 0 reduces 14 elements and all others 15."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(14))  # site A
else:
    dist.all_reduce(torch.ones(15))  # site B
