"""As averages.py, but in the second iteration rank 2 is gone without a word, as with `os._exit(0)`."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
layer = torch.nn.Linear(4, 1)
for parameter in layer.parameters():
    dist.broadcast(parameter.data, 0)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    loss = layer(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in layer.parameters():
        dist.all_reduce(parameter.grad)  # the last that is seen of it
        parameter.grad /= dist.get_world_size()
    if step == 1 and dist.get_rank() == 2:
        os._exit(0)
    optimizer.step()
