"""Models whose parameters are sharded: FSDP, tensor and sequence parallelism, and both."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checking import check, main
from models import WIDTH, Block, data, sgd, stack, train
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


def fsdp1(strategy: ShardingStrategy, **options: object) -> list[float]:
    model = FullyShardedDataParallel(
        stack(),
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        sharding_strategy=strategy,
        device_id=torch.device("cpu"),
        use_orig_params=True,
        **options,
    )
    losses = train(model, sgd(model))
    return [*losses, model.clip_grad_norm_(1.0).item()]


def fsdp2(**options: object) -> list[float]:
    model = stack()
    for block in model:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return train(model, sgd(model))


@check("FSDP1, FULL_SHARD")
def full_shard() -> object:
    return fsdp1(ShardingStrategy.FULL_SHARD)


@check("FSDP1, SHARD_GRAD_OP")
def shard_grad_op() -> object:
    return fsdp1(ShardingStrategy.SHARD_GRAD_OP)


@check("FSDP1, HYBRID_SHARD")
def hybrid_shard() -> object:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    return fsdp1(ShardingStrategy.HYBRID_SHARD, device_mesh=mesh)


@check("FSDP2, fully_shard")
def fully_sharded() -> object:
    return fsdp2(mesh=init_device_mesh("cpu", (4,)))


@check("FSDP2, reshard_after_forward=False")
def kept() -> object:
    return fsdp2(mesh=init_device_mesh("cpu", (4,)), reshard_after_forward=False)


@check("FSDP2, HSDP")
def hsdp() -> object:
    return fsdp2(mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))


@check("FSDP2, mixed precision")
def mixed() -> object:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return fsdp2(mesh=init_device_mesh("cpu", (4,)), mp_policy=policy)


@check("FSDP2, gradient clipping")
def clipping() -> object:
    model = fully_shard(stack(), mesh=init_device_mesh("cpu", (4,)))
    x, target = data()
    (model(x) - target).square().mean().backward()
    return nn.utils.clip_grad_norm_(model.parameters(), 0.1).full_tensor()


TENSOR_PARALLEL = {"up": ColwiseParallel(), "down": RowwiseParallel()}


@check("tensor parallelism")
def tensor_parallel() -> object:
    mesh = init_device_mesh("cpu", (4,))
    model = stack()
    for block in model:
        parallelize_module(block, mesh, TENSOR_PARALLEL)
    return train(model, sgd(model), seed=0)


class Normed(nn.Module):
    """A norm on shards of the sequence, then layers on shards of the features."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.norm(x))))


@check("sequence parallelism")
def sequence_parallel() -> object:
    mesh = init_device_mesh("cpu", (4,))
    torch.manual_seed(1)
    plan = {
        "": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }
    model = parallelize_module(Normed(), mesh, plan)
    optimizer = sgd(model)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(data()[0].view(2, 4, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@check("2D: tensor parallelism and FSDP2")
def two_dimensions() -> object:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = stack()
    for block in model:
        parallelize_module(block, mesh["tp"], TENSOR_PARALLEL)
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    return train(model, sgd(model), seed=dist.get_rank() // 2)


@check("loss_parallel")
def loss_parallel() -> object:
    mesh = init_device_mesh("cpu", (4,))
    torch.manual_seed(1)
    model = parallelize_module(nn.Linear(WIDTH, 8), mesh, ColwiseParallel(use_local_output=False))
    with torch.distributed.tensor.parallel.loss_parallel():
        loss = nn.functional.cross_entropy(model(data(0)[0]), torch.arange(8))
        loss.backward()
    return [loss.full_tensor().detach(), model.weight.grad.to_local()]


if __name__ == "__main__":
    main()
