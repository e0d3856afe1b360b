"""Where torch.compile leaves its graphs: as often as on gloo, and never for what stands behind a process group.

Nothing is compiled by inductor, so that this is quick.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch._dynamo
import torch.distributed as dist
from checking import check, main
from models import sgd, stack, train
from torch._dynamo.utils import counters
from torch.nn.parallel import DistributedDataParallel


def breaks(step: Callable[[], object]) -> object:
    """What the step gives, and how many graph breaks it had."""
    torch._dynamo.reset()
    counters.clear()
    return step(), sum(counters["graph_break"].values())


@check("graph breaks of compiled DDP")
def compiled_ddp() -> object:
    model = DistributedDataParallel(stack())
    return breaks(lambda: train(torch.compile(model, backend="eager"), sgd(model)))


@check("graph breaks around c10d calls")
def c10d_calls() -> object:
    @torch.compile(backend="eager")
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y, async_op=True).wait()
        dist.barrier()
        dist.broadcast(y, 0)
        blocks = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(blocks, x + y)
        return torch.stack(blocks)

    return breaks(lambda: step(torch.arange(3.0) + dist.get_rank()))


@check("graph breaks around messages")
def messages() -> object:
    @torch.compile(backend="eager")
    def step(x: torch.Tensor) -> torch.Tensor:
        rank, size, y = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
        sent = dist.P2POp(dist.isend, x * 2, (rank + 1) % size)
        received = dist.P2POp(dist.irecv, y, (rank - 1) % size)
        for work in dist.batch_isend_irecv([sent, received]):
            work.wait()
        return x + y

    return breaks(lambda: step(torch.arange(3.0) + dist.get_rank()))


if __name__ == "__main__":
    main()
