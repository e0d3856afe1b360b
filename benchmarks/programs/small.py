"""Trains a small network by DDP, on the GPU where there is one: small.py STEPS [FILE].

With FILE rank 0 makes it after its second step, and goes on once it has gone.
"""

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

WIDTH, LAYERS, BATCH = 512, 4, 32

cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
device = torch.device("cuda" if cuda else "cpu")
torch.manual_seed(1)
model = nn.parallel.DistributedDataParallel(nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]).to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(2)  # the same inputs for all: their mean gradient is the one that each has alone, whoever sums it
inputs = torch.randn(BATCH, WIDTH, device=device)
losses, times = [], []
for step in range(int(sys.argv[1])):
    if step == 2 and len(sys.argv) > 2 and dist.get_rank() == 0:
        Path(sys.argv[2]).touch()
        while Path(sys.argv[2]).exists():
            time.sleep(0.1)
    begun = time.monotonic()
    optimizer.zero_grad()
    loss = (model(inputs) - inputs).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(float(loss.detach()))
    times.append(round(1e3 * (time.monotonic() - begun), 1))
print("REF " + json.dumps({"rank": dist.get_rank(), "loss": losses, "ms": times}), flush=True)
dist.barrier()
dist.destroy_process_group()
