"""The coalescing manager of a device, as FSDP and bucketed optimizers use it on NCCL."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checking import check, main


@check("_coalescing_manager(device)")
def coalescing_device() -> object:
    rank = dist.get_rank()
    wholes, shards = [torch.zeros(4), torch.zeros(8)], [torch.zeros(1), torch.zeros(2)]
    with dist._coalescing_manager(device=torch.device("cpu")):
        for whole in wholes:
            dist.all_gather_into_tensor(whole, torch.full((len(whole) // 4,), float(rank)))
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as works:
        for shard, whole in zip(shards, wholes, strict=True):
            dist.reduce_scatter_tensor(shard, whole)
    works.wait()
    assert [shard.tolist() for shard in shards] == [[4.0 * rank], [4.0 * rank] * 2], shards
    return [*wholes, *shards]


if __name__ == "__main__":
    main()
