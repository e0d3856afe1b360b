"""Rank 0 broadcasts what no queue holds and ends without a wait; the others come later."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
data = torch.full((3_000_000,), rank + 1.0)
work = dist.broadcast(data, 0, async_op=True)
if rank:
    time.sleep(0.5)
    work.wait()
    print(data[0].item(), data[-1].item())
