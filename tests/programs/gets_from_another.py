"""Two ranks; rank 0 prints what it gets where rank 1 gives something, and has 1, 2, ... before (`strided`: also so)."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.0)


def told(name: str, *tensors: torch.Tensor) -> None:
    if rank == 0:
        print(name, [tensor.flatten().tolist() for tensor in tensors])


def own(count: int) -> torch.Tensor:
    return torch.arange(1.0, count + 1) + 10 * rank


for _ in range(2):
    tensor = own(3)
    dist.broadcast(tensor, 1)
    told("broadcast", tensor)
    if "strided" in sys.argv:
        strided = own(6).view(3, 2).t()
        dist.broadcast(strided, 1)
        told("broadcast of a transposed tensor", strided)
    both = [torch.empty(2), torch.empty(2)]
    dist.all_gather(both, own(2))
    told("all_gather", *both)
    part = own(2)
    dist.scatter(part, [own(2), own(2)] if rank == 1 else None, 1)
    told("scatter", part)
    both = [own(2), own(2)]
    dist.gather(own(2), both if rank == 0 else None, 0)
    told("gather", *both)
    whole = torch.empty(4)
    dist.all_to_all_single(whole, own(4))
    told("all_to_all", whole)
    tensor = own(2)
    dist.recv(tensor, 1) if rank == 0 else dist.send(tensor, 0)
    told("recv", tensor)
    optimizer.step()
dist.destroy_process_group()
