"""Trains what fills a GPU: heavy.py GIB,GIB... STEPS [SEED]; rank r takes the r-th number of GiB, from the first again.

Weights, gradients and both moments of AdamW, of which each rank has its own, by its seed: its number, or SEED. Ranks
only meet in sums of their losses, so the losses of one are those of a run of it alone. Without a GPU GIB are MiB.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
rank, sizes = dist.get_rank(), [float(size) for size in sys.argv[1].split(",")]
device = torch.device("cuda" if cuda else "cpu")
width, batch = (8192, 64) if cuda else (256, 4)  # a layer of 128 MiB, or KiB, in bf16, and four times that in all
layers = round(sizes[rank % len(sizes)] * 2)
torch.set_default_device(device)
torch.set_default_dtype(torch.bfloat16)
torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else rank)
model = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(layers)])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
inputs = torch.randn(batch, width)
losses, sums = [], []
for _ in range(int(sys.argv[2])):
    optimizer.zero_grad()
    hidden = inputs
    for layer in model:
        hidden = hidden + layer(hidden)
    loss = hidden.float().square().mean()
    loss.backward()
    total = loss.detach().double()
    dist.all_reduce(total)
    optimizer.step()
    norm = torch.stack([weight.detach().sum(dtype=torch.float64) for weight in model.parameters()]).sum()
    losses.append(float(loss.detach()))
    sums.append(float(norm))
    dist.all_reduce(norm)
told = {"rank": rank, "world": dist.get_world_size(), "loss": losses, "sums": sums, "pid": os.getpid()}
if cuda:
    told |= {"max_allocated": torch.cuda.max_memory_allocated(), "max_reserved": torch.cuda.max_memory_reserved()}
print("REF " + json.dumps(told), flush=True)
dist.barrier()
dist.destroy_process_group()
