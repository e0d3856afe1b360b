"""Calls that gloo refuses or gets wrong, on four ranks; each prints a line a call, with its name and values."""

import warnings

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")  # torch announces the renaming of what it still exports


def show(name: str, *values: object) -> None:
    print(name, *(v.tolist() if isinstance(v, torch.Tensor) else v for v in values), flush=True)


dist.init_process_group("gloo")
rank = dist.get_rank()

data = torch.tensor([rank, 10 * rank])
dist.all_reduce(data, dist.ReduceOp.AVG)
show("all_reduce avg of integers", data)
data = torch.tensor([rank == 2, False, True])
dist.all_reduce(data, dist.ReduceOp.MAX)
show("all_reduce max of bool", data)

parts = [torch.zeros(i + 1) for i in range(4)]
dist.all_gather(parts, torch.full((rank + 1,), float(rank)))
show("all_gather uneven", *parts)
stacked = torch.zeros(4, 2)
dist.all_gather_into_tensor(stacked, torch.full((2,), float(rank)))
show("all_gather_into_tensor stacked", stacked)
data = torch.zeros(rank)
dist.reduce_scatter(data, [torch.full((i,), float(rank)) for i in range(4)])
show("reduce_scatter uneven", data)
parts = [torch.zeros(rank) for _ in range(4)]
dist.all_to_all(parts, [torch.full((i,), float(rank)) for i in range(4)])
show("all_to_all uneven", *parts)

strided = torch.arange(6.0) + 10 * rank
dist.broadcast(strided[::2], 1)
show("broadcast of every other element", strided)

wholes, shards = [torch.zeros(4), torch.zeros(8)], [torch.zeros(1), torch.zeros(2)]
with dist._coalescing_manager():
    for whole in wholes:
        dist.all_gather_into_tensor(whole, torch.full((len(whole) // 4,), float(rank)))
show("coalesced all_gather_into_tensor", *wholes)
with dist._coalescing_manager():
    for shard, whole in zip(shards, wholes, strict=True):
        dist.reduce_scatter_tensor(shard, whole)
show("coalesced reduce_scatter_tensor", *shards)
