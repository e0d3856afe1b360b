"""Two linear layers under AdamW whose peak is a tensor of 4 MiB: in the forward pass, or, with `after`, past backward.

With `late`, gradients are cleared only when the next forward pass is over.
"""

import sys

import torch
import torch.distributed as dist

WHEN = sys.argv[1]
dist.init_process_group("gloo")
model = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False), torch.nn.Linear(64, 64, bias=False))
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
batch = torch.ones(256, 64)
for _ in range(3):
    loss = model(batch).sum()
    if WHEN != "after":
        torch.empty(1024, 1024)
    if WHEN == "late":
        optimizer.zero_grad()
    loss.backward()
    if WHEN == "after":
        torch.empty(1024, 1024)
    optimizer.step()
    if WHEN != "late":
        optimizer.zero_grad()
