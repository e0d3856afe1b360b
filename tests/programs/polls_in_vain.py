"""Rank 0 polls a receive for which nobody sends; rank 1 has long ended."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()  # site B
if dist.get_rank() == 0:
    work = dist.irecv(torch.empty(4), 1)  # site A
    while not work.is_completed():
        pass
