"""What torch's own observers see of the collectives."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from checking import check, main
from models import sgd, stack, train
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile


@check("CommDebugMode, DTensor and FSDP2")
def comm_debug_mode() -> object:
    model = fully_shard(stack(), mesh=init_device_mesh("cpu", (4,)))
    with CommDebugMode() as seen:
        train(model, sgd(model), steps=1)
        functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD).wait()
    counts = {str(op): count for op, count in seen.get_comm_counts().items()}
    assert counts, "no collective was seen"
    return counts


@check("CommDebugMode, c10d calls")
def comm_debug_calls() -> object:
    with CommDebugMode() as seen:
        dist.all_reduce(torch.ones(2))
        dist.barrier()
    counts = {str(op): count for op, count in seen.get_comm_counts().items()}
    assert counts, "no collective was seen"
    return counts


@check("torch.profiler sees c10d operations")
def profiler() -> object:
    model = DistributedDataParallel(stack())
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        train(model, sgd(model), steps=1)
        dist.broadcast(torch.ones(2), 0)
    names = sorted({event.name for event in seen.events() if event.name.startswith("c10d::")})
    assert names, "no operation was seen"
    return names


if __name__ == "__main__":
    main()
