"""Data parallelism with DistributedDataParallel."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checking import check, main
from models import WIDTH, Block, data, sgd, stack, train
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

SMALL = 0.001  # MiB: many buckets


def trained(**options: object) -> list[float]:
    model = DistributedDataParallel(stack(), **options)
    return train(model, sgd(model))


def hooked(state: object, hook: object) -> list[float]:
    model = DistributedDataParallel(stack(), bucket_cap_mb=SMALL)
    model.register_comm_hook(state, hook)
    return train(model, sgd(model))


@check("DDP")
def plain() -> object:
    return trained()


@check("DDP, many buckets")
def buckets() -> object:
    return trained(bucket_cap_mb=SMALL)


@check("DDP, gradient_as_bucket_view")
def bucket_views() -> object:
    return trained(gradient_as_bucket_view=True)


class Branches(nn.Module):
    """A model of which each rank uses another part."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.branches = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.branches[dist.get_rank() % 2](x)


@check("DDP, find_unused_parameters")
def unused() -> object:
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    return train(model, sgd(model))


@check("DDP, static_graph")
def static_graph() -> object:
    return trained(static_graph=True, bucket_cap_mb=SMALL)


@check("DDP, no_sync")
def no_sync() -> object:
    model = DistributedDataParallel(stack())
    optimizer = sgd(model)
    x, target = data()
    with model.no_sync():
        (model(x) - target).square().mean().backward()
    return train(model, optimizer)


@check("DDP, buffers")
def buffers() -> object:
    model = DistributedDataParallel(nn.Sequential(stack(1), nn.BatchNorm1d(WIDTH)))
    losses = train(model, sgd(model))
    return [losses, model.module[1].running_mean if dist.get_rank() == 0 else None]


@check("DDP, Join with uneven inputs")
def join() -> object:
    model = DistributedDataParallel(stack())
    optimizer = sgd(model)
    with Join([model]):
        losses = train(model, optimizer, steps=dist.get_rank() + 1)
    return [losses, [parameter.sum().item() for parameter in model.parameters()]]


@check("DDP, fp16_compress_hook")
def fp16() -> object:
    losses = hooked(None, default_hooks.fp16_compress_hook)
    return [round(loss, 3) for loss in losses]  # half-precision sums depend on their order


@check("DDP, PowerSGD hook")
def power_sgd() -> object:
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model = DistributedDataParallel(stack())
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(model, sgd(model), steps=4)


@check("DDP, built-in C++ hook")
def built_in() -> object:
    model = DistributedDataParallel(stack(), bucket_cap_mb=SMALL)
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    return train(model, sgd(model))


if __name__ == "__main__":
    main()
