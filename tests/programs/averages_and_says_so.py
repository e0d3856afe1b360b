"""Does what averages.py does, and prints more."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
layer = torch.nn.Linear(4, 1)
for parameter in layer.parameters():
    dist.broadcast(parameter.data, 0)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    loss = layer(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in layer.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    print("changed")
    print(f"loss {loss.item():.6f}", flush=True)
