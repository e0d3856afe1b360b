"""Sums on three ranks whose inputs anybody can compute; `inputs` is what a test compares the record with."""

import torch
import torch.distributed as dist

SIZE = 3
COUNTS = {"all_reduce": 1003, "reduce": 17, "reduce_scatter": 3 * 64}


def inputs(name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """What each rank gives, with digits enough to lose."""
    torch.manual_seed(len(name))
    return [(torch.randn(COUNTS[name]) * 10**rank).to(dtype) for rank in range(SIZE)]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    dist.all_reduce(inputs("all_reduce", torch.float32)[rank])
    dist.all_reduce(inputs("all_reduce", torch.bfloat16)[rank], dist.ReduceOp.MAX)
    dist.reduce(inputs("reduce", torch.float64)[rank], 1)
    shard = torch.empty(COUNTS["reduce_scatter"] // SIZE)
    dist.reduce_scatter_tensor(shard, inputs("reduce_scatter", torch.float32)[rank])


if __name__ == "__main__":
    main()
