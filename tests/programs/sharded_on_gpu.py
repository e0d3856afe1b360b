"""A tiny model, fully sharded on the GPU that each rank is said to have: it communicates in streams of its own.

Its one argument is the number of iterations.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.manual_seed(0)
layers = [nn.Linear(16, 16) for _ in range(3)]
model = nn.Sequential(*layers).to("cuda")
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
for layer in layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(4, 16, device="cuda")
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    print("loss", loss.item(), flush=True)
dist.destroy_process_group()
