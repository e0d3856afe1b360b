"""Holds 8 MiB that change in each of three steps, beside sums of all ranks; prints what became of both."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
held = torch.arange(1 << 21, dtype=torch.float32).add_(dist.get_rank())
kept = [torch.full((1 << 16,), float(dist.get_rank())) for _ in range(4)]
for _ in range(3):
    total = held[:1000].clone()
    dist.all_reduce(total)
    held[:1000] = total / dist.get_world_size()
    held[1000:] *= 1.5
print(f"{held.double().sum().item()} {sum(tensor.sum().item() for tensor in kept)}")
