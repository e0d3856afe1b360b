"""Rank r holds 4,096 bytes and then 512 (r + 1) more, as blocks are rounded; exactly that is its peak."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()  # all have begun
rank = dist.get_rank()
first = torch.empty(1000)
second = torch.empty(128 * rank + 1)
