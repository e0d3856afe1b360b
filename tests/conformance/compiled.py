"""Collectives and parallel models under torch.compile, with inductor."""

from __future__ import annotations

import os

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of processes for four small graphs

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from checking import check, main
from models import sgd, stack, train
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


@check("torch.compile of functional collectives")
def compiled_functional() -> object:
    @torch.compile(fullgraph=True)
    def step(x: torch.Tensor) -> torch.Tensor:
        summed = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
        return functional.all_gather_tensor(summed + x, 0, dist.group.WORLD) * 3

    return step(torch.arange(3.0) + dist.get_rank())


@check("torch.compile of dist.all_reduce")
def compiled_all_reduce() -> object:
    @torch.compile(fullgraph=True)
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    return step(torch.arange(3.0) + dist.get_rank())


@check("torch.compile of DDP")
def compiled_ddp() -> object:
    model = DistributedDataParallel(stack())
    return train(torch.compile(model), sgd(model))


@check("torch.compile of FSDP2")
def compiled_fsdp2() -> object:
    model = stack()
    for block in model:
        fully_shard(block, mesh=init_device_mesh("cpu", (4,)))
        block.compile()
    fully_shard(model, mesh=init_device_mesh("cpu", (4,)))
    return train(model, sgd(model))


if __name__ == "__main__":
    main()
