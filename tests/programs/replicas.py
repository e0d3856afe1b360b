"""Replicas with equal data, along the first dimension of a mesh dp x tp of TP columns: replicas.py TP [ODD].

Each rank prints what it gets, bit by bit. In the end ODD and its tensor peers sum up an element more than the others.
"""

import sys

import torch
import torch.distributed as dist

columns = int(sys.argv[1])
odd = int(sys.argv[2]) if len(sys.argv) > 2 else -1
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
rows, column = world // columns, rank % columns
grid = torch.arange(world).view(rows, columns)
tensor, _ = dist.new_subgroups_by_enumeration(grid.tolist())
data, _ = dist.new_subgroups_by_enumeration(grid.T.tolist())


def say(what, tensor):
    print(what, tensor.double().numpy().tobytes().hex(), flush=True)


mine = torch.linspace(0.1 + column, 1.7, 5 * rows)
for name, group in (("tensor", tensor), ("data", data), ("all", None)):
    size = dist.get_world_size(group)
    total = mine.clone()
    dist.all_reduce(total, group=group)
    say(f"{name} sum", total)
    mean = mine.to(torch.bfloat16)
    dist.all_reduce(mean, dist.ReduceOp.AVG, group=group)
    say(f"{name} average", mean)
    whole = torch.empty(size * mine.numel())
    dist.all_gather_into_tensor(whole, mine, group=group)
    say(f"{name} gathered", whole)
    shard = torch.empty(3)
    dist.reduce_scatter_tensor(shard, torch.linspace(0.3, 1.1 + column, 3 * size), group=group)
    say(f"{name} shard", shard)
    lead = torch.full((2,), 1.0 + column)
    dist.broadcast(lead, dist.get_global_rank(group, 0) if group else 0, group=group)
    say(f"{name} broadcast", lead)
    known = [None] * size
    dist.all_gather_object(known, {"column": column}, group=group)
    print(name, "objects", known, flush=True)
    even = torch.empty(size)
    dist.all_to_all_single(even, torch.full((size,), 1.0 + column), group=group)
    say(f"{name} exchanged", even)
    dist.barrier(group)
extra = torch.ones(2 if rank // columns == odd // columns and odd >= 0 else 1)
dist.all_reduce(extra, group=tensor)
dist.destroy_process_group()
