"""Sums among all ranks, the first of which makes the communicator: how long that takes rank 0, and in what memory.

Rank 0 prints `INIT {json}`: seconds of init_process_group and of the first all_reduce, bytes of the device before and
after, and of torch's among them.
"""

import json
import os
import time

import torch
import torch.distributed as dist

cuda = torch.cuda.is_available()
if cuda:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
device = torch.device("cuda" if cuda else "cpu")
tensor = torch.ones(1 << 20, device=device)


def taken() -> int:
    """Bytes of the device that are not free."""
    free, total = torch.cuda.mem_get_info() if cuda else (0, 0)
    return total - free


before, begun = taken(), time.perf_counter()
dist.init_process_group("nccl" if cuda else "gloo")
made = time.perf_counter()
dist.all_reduce(tensor)
if cuda:
    torch.cuda.synchronize()
summed = time.perf_counter()
if dist.get_rank() == 0:
    told = {"group_s": made - begun, "first_sum_s": summed - made, "bytes": taken() - before}
    print("INIT", json.dumps(told), flush=True)
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, device=device))], lr=0.0)
for _ in range(3):
    dist.all_reduce(tensor)
    optimizer.step()
