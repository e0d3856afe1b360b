"""Rank 0 polls a pending receive until rank 1 has sent."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
data = torch.arange(4.0)
if dist.get_rank() == 0:
    data.zero_()
    work = dist.irecv(data, 1)
    while not work.is_completed():
        pass
    work.wait()
else:
    dist.send(data, 0)
print(data.tolist(), flush=True)
