"""The optimizer whose state is sharded; a program of its own, since torch.distributed.optim takes long to import."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checking import check, main
from models import stack, train
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


@check("ZeroRedundancyOptimizer")
def zero() -> object:
    model = DistributedDataParallel(stack())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    losses = train(model, optimizer)
    optimizer.consolidate_state_dict(to=0)
    return [losses, len(optimizer.state_dict()["state"]) if dist.get_rank() == 0 else None]


if __name__ == "__main__":
    main()
