"""Goes on until a sum tells that all ranks have done their steps, each as many as its own; prints what it gets."""

import os

import torch
import torch.distributed as dist

on_gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if on_gpu else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()) if on_gpu else "cpu"
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, device=device))], lr=0.0)

done, step = torch.zeros(1, dtype=torch.int64, device=device), 0
while done.item() < world:
    step += 1
    done.fill_(step > rank + 2)
    dist.all_reduce(done)
    norm = torch.full((3,), rank + 1.0, device=device)
    dist.all_reduce(norm, async_op=True).wait()
    print(step, done.item(), norm.tolist(), flush=True)
    optimizer.step()
dist.destroy_process_group()
