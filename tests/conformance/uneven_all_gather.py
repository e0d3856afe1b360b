"""all_gather of pieces of different lengths, which NCCL allows and experts under tensor parallelism need."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checking import check, main


@check("all_gather, uneven")
def uneven_all_gather() -> object:
    rank = dist.get_rank()
    parts = [torch.zeros(i + 1) for i in range(4)]
    dist.all_gather(parts, torch.full((rank + 1,), float(rank)))
    assert [part.tolist() for part in parts] == [[float(i)] * (i + 1) for i in range(4)], parts
    return parts


if __name__ == "__main__":
    main()
