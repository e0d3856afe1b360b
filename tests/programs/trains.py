"""Three iterations of 20 ms of computing, one sum of the gradients and one step."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight])
for _ in range(3):
    time.sleep(0.02)
    weight.grad = torch.ones(4)
    dist.all_reduce(weight.grad)  # site A
    optimizer.step()  # site B
