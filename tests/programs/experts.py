"""Experts on every rank, two layers: experts.py TOKENS...; each rank sends so many tokens to rank 0, 1, ..."""

import sys

import torch
import torch.distributed as dist

counts = list(map(int, sys.argv[1:]))
dist.init_process_group("gloo")
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.0)
for _ in range(2):
    for _ in range(2):
        sizes = torch.empty(len(counts), dtype=torch.int64)
        dist.all_to_all_single(sizes, torch.tensor(counts))
        tokens = torch.empty(int(sizes.sum()), 4)
        dist.all_to_all_single(tokens, torch.ones(sum(counts), 4), sizes.tolist(), counts)
        dist.all_to_all_single(torch.empty(sum(counts), 4), tokens, counts, sizes.tolist())
    optimizer.step()
