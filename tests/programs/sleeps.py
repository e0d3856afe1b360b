"""Data parallel in six iterations; the first argument says how many ms a rank sleeps in a step, as in `20 + rank`."""

import sys
import time

import torch
import torch.distributed as dist

ms = eval(f"lambda rank, step: {sys.argv[1]}")
dist.init_process_group("gloo")
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight])
for step in range(6):
    print("step", step)
    time.sleep(ms(dist.get_rank(), step) / 1000)
    weight.grad = torch.ones(4)
    dist.all_reduce(weight.grad)
    time.sleep(0.005)
    optimizer.step()
time.sleep(0.05)
dist.barrier()
