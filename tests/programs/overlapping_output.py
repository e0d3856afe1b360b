"""Rank 1 receives into a tensor whose elements share their memory, which nothing can be copied into."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    dist.broadcast(torch.arange(4.0), 0)
else:
    dist.broadcast(torch.zeros(1).expand(4), 0)  # site A
print("went on", flush=True)
