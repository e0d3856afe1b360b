"""Functional collectives, device meshes and distributed tensors."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from checking import check, main
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor


def mine(*shape: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(shape).numel())).view(shape) + 10 * dist.get_rank()


@check("functional collectives")
def eager() -> object:
    group = dist.group.WORLD
    return [
        functional.all_reduce(mine(3), "sum", group) + 0,
        functional.all_gather_tensor(mine(2), 0, group) + 0,
        functional.reduce_scatter_tensor(mine(8), "sum", 0, group) + 0,
        functional.all_to_all_single(mine(4, 2), None, None, group) + 0,
        functional.broadcast(mine(2), 1, group) + 0,
    ]


@check("functional collectives, AsyncCollectiveTensor")
def asynchronous() -> object:
    data = functional.all_reduce(mine(3), "sum", dist.group.WORLD)
    assert isinstance(data, functional.AsyncCollectiveTensor), type(data)
    view = data.view(-1)
    return functional.wait_tensor(view) * 2


@check("functional collectives, autograd")
def differentiable() -> object:
    group = dist.group.WORLD
    data = mine(4, 2).requires_grad_()
    gathered = functional.all_gather_tensor_autograd(data, 0, group)
    scattered = functional.reduce_scatter_tensor_autograd(gathered * gathered, "sum", 0, group)
    swapped = functional.all_to_all_single_autograd(scattered, None, None, group)
    (swapped * mine(4, 2)).sum().backward()
    return [swapped.detach(), data.grad]


@check("functional collectives, coalesced")
def coalesced() -> object:
    group = dist.group.WORLD
    summed = functional.all_reduce_coalesced([mine(2), mine(3)], "sum", group)
    gathered = functional.all_gather_into_tensor_coalesced([mine(2), mine(1)], group)
    scattered = functional.reduce_scatter_tensor_coalesced([mine(4), mine(8)], "sum", [0, 0], group)
    return [tensor + 0 for tensor in (*summed, *gathered, *scattered)]


@check("functional collectives, permute_tensor")
def permute() -> object:
    return functional.permute_tensor(mine(3), [1, 2, 3, 0], dist.group.WORLD) + 0


@check("init_device_mesh, 1D")
def mesh_1d() -> object:
    mesh = init_device_mesh("cpu", (4,))
    data = mine(2)
    dist.all_reduce(data, group=mesh.get_group())
    return [data, mesh.get_local_rank()]


@check("init_device_mesh, 2D")
def mesh_2d() -> object:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    data = [mine(2), mine(2), mine(2)]
    for tensor, group in zip(data, (mesh["dp"].get_group(), mesh["tp"].get_group()), strict=False):
        dist.all_reduce(tensor, group=group)
    dist.all_reduce(data[2], group=mesh._flatten("all").get_group())
    return [*data, mesh.get_coordinate()]


@check("DTensor, redistribute")
def redistribute() -> object:
    mesh = init_device_mesh("cpu", (4,))
    whole = torch.arange(64.0).view(8, 8)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    summed = DTensor.from_local(mine(4, 2), mesh, [Partial()]).redistribute(mesh, [Shard(0)])
    return [columns.to_local(), columns.redistribute(mesh, [Replicate()]).to_local(), summed.to_local()]


@check("DTensor, matmul and backward")
def matmul() -> object:
    mesh = init_device_mesh("cpu", (4,))
    left = distribute_tensor(torch.randn(8, 8), mesh, [Shard(1)]).requires_grad_()
    right = distribute_tensor(torch.randn(8, 8), mesh, [Shard(0)]).requires_grad_()
    loss = (left @ right).square().sum()
    loss.backward()
    return [loss.full_tensor().detach(), left.grad.full_tensor(), right.grad.to_local()]


@check("DTensor, uneven shards")
def uneven() -> object:
    mesh = init_device_mesh("cpu", (4,))
    rows = distribute_tensor(torch.arange(14.0).view(7, 2), mesh, [Shard(0)])
    return [rows.to_local(), (rows * 2).full_tensor(), rows.sum().full_tensor()]


@check("DTensor, distribute_module")
def module() -> object:
    mesh = init_device_mesh("cpu", (4,))
    model = distribute_module(nn.Linear(4, 4), mesh)
    return model(distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])).full_tensor().detach()


if __name__ == "__main__":
    main()
