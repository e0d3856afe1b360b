"""Collectives in which every member moves the same: their sizes make equal chunks for groups of 2, 3, 4 and 6."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
world = dist.get_world_size()
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.0)
for _ in range(3):
    dist.all_reduce(torch.ones(12 * 1008))
    dist.all_gather_into_tensor(torch.empty(world * 77), torch.ones(77))
    dist.reduce_scatter_tensor(torch.empty(5), torch.ones(5 * world))
    dist.all_to_all_single(torch.empty(3 * world), torch.ones(3 * world))
    optimizer.step()
dist.destroy_process_group()
