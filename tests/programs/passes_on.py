"""Numbers pass through all ranks, each of which adds its own, and are summed: passes_on.py ITERATIONS."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, last = dist.get_rank(), dist.get_world_size() - 1
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.0)
for iteration in range(int(sys.argv[1])):
    numbers = torch.arange(4.0) * iteration
    if rank > 0:
        dist.recv(numbers, rank - 1)
    numbers += rank
    if rank < last:
        dist.send(numbers, rank + 1)
    dist.all_reduce(numbers)
    optimizer.step()
    print(numbers.tolist(), flush=True)
