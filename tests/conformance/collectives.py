"""The collectives of torch.distributed."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checking import check, main

Reduction = dist.ReduceOp.RedOpType
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
NUMBERS = (*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8)


def mine(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small integers, which any type holds and any order sums exactly; they differ by rank and place."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 3 + dist.get_rank() + 1).to(dtype).view(shape)


def reduced(op: Reduction, dtype: torch.dtype) -> list[object]:
    data = mine(5, dtype=dtype)
    dist.all_reduce(data, op)
    return data.tolist()


@check("all_reduce, 8 dtypes")
def all_reduce() -> object:
    return [reduced(dist.ReduceOp.SUM, dtype) for dtype in NUMBERS]


@check("all_reduce, complex")
def all_reduce_complex() -> object:
    data = torch.complex(mine(3), mine(3) * 2)
    dist.all_reduce(data)
    return torch.view_as_real(data)


@check("all_reduce, async_op")
def all_reduce_async() -> object:
    data = [mine(3), mine(4) * 2]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in data]
    for work in reversed(works):
        work.wait()
    return [*data, [work.is_completed() for work in works]]


@check("all_reduce PRODUCT, MIN, MAX")
def all_reduce_arithmetic() -> object:
    ops = (dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
    return [reduced(op, dtype) for op in ops for dtype in NUMBERS]


@check("all_reduce AVG")
def all_reduce_average() -> object:
    return [reduced(dist.ReduceOp.AVG, dtype) for dtype in FLOATS]


@check("all_reduce BAND, BOR, BXOR")
def all_reduce_bitwise() -> object:
    ops = (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
    return [reduced(op, dtype) for op in ops for dtype in (torch.int64, torch.int32, torch.uint8)]


@check("all_reduce PREMUL_SUM")
def all_reduce_scaled() -> object:
    data = mine(4)
    dist.all_reduce(data, dist._make_nccl_premul_sum(0.5))
    assert data.tolist() == [5.0, 7.0, 9.0, 5.0], data
    return data


@check("all_reduce_coalesced")
def all_reduce_coalesced() -> object:
    data = [mine(3), mine(2, 2)]
    dist.all_reduce_coalesced(data)
    return data


@check("broadcast, 10 dtypes")
def broadcast() -> object:
    data = [mine(4, dtype=dtype) for dtype in (*NUMBERS, torch.bool, torch.complex64)]
    for tensor in data:
        dist.broadcast(tensor, src=2)
    return [*data[:-1], torch.view_as_real(data[-1])]


@check("reduce")
def reduce() -> object:
    data = [mine(6) for _ in range(4)]
    for root, tensor in enumerate(data):
        dist.reduce(tensor, dst=root)
    return data[dist.get_rank()]  # what the others keep is nobody's business


@check("all_gather into a list")
def all_gather() -> object:
    parts = [torch.zeros(2, 3) for _ in range(4)]
    flags = [torch.zeros(2, dtype=torch.bool) for _ in range(4)]
    dist.all_gather(parts, mine(2, 3))
    dist.all_gather(flags, mine(2) > 2)
    return [parts, flags]


@check("all_gather_into_tensor")
def all_gather_into_tensor() -> object:
    whole = torch.zeros(8)
    dist.all_gather_into_tensor(whole, mine(2))
    return whole


@check("all_gather_coalesced")
def all_gather_coalesced() -> object:
    outputs = [[torch.zeros(2), torch.zeros(3)] for _ in range(4)]
    dist.all_gather_coalesced(outputs, [mine(2), mine(3)])
    return outputs


@check("gather")
def gather() -> object:
    parts = [torch.zeros(3) for _ in range(4)] if dist.get_rank() == 1 else None
    dist.gather(mine(3), parts, dst=1)
    return parts


@check("scatter")
def scatter() -> object:
    data = torch.zeros(3)
    dist.scatter(data, [mine(3) * (i + 1) for i in range(4)] if dist.get_rank() == 3 else None, src=3)
    return data


@check("reduce_scatter of a list")
def reduce_scatter() -> object:
    data = torch.zeros(2)
    dist.reduce_scatter(data, [mine(2) * (i + 1) for i in range(4)])
    return data


@check("reduce_scatter_tensor")
def reduce_scatter_tensor() -> object:
    data = torch.zeros(2)
    dist.reduce_scatter_tensor(data, mine(8))
    return data


@check("all_to_all")
def all_to_all() -> object:
    parts = [torch.zeros(2) for _ in range(4)]
    dist.all_to_all(parts, [mine(2) * (i + 1) for i in range(4)])
    return parts


@check("all_to_all_single")
def all_to_all_single() -> object:
    data = torch.zeros(4, 2)
    dist.all_to_all_single(data, mine(4, 2))
    return data


@check("all_to_all_single, uneven splits")
def all_to_all_single_uneven() -> object:
    rank = dist.get_rank()
    send = [(rank + i) % 3 for i in range(4)]  # rows, some of them none
    receive = [(i + rank) % 3 for i in range(4)]
    data = torch.zeros(sum(receive), 2)
    dist.all_to_all_single(data, mine(sum(send), 2), receive, send)
    return data


@check("get_future().then")
def future_then() -> object:
    data = mine(3)
    future = dist.all_reduce(data, async_op=True).get_future()
    return future.then(lambda done: done.value()[0] / 4).wait()


@check("broadcast_object_list")
def broadcast_object_list() -> object:
    rank = dist.get_rank()
    given = [{"rank": rank, "text": "x" * (rank + 1)}, None]
    dist.broadcast_object_list(given, src=1)
    return given


@check("all_gather_object")
def all_gather_object() -> object:
    rank = dist.get_rank()
    found: list[object] = [None] * 4
    dist.all_gather_object(found, ["rank", rank, "y" * rank])
    return found


@check("gather_object")
def gather_object() -> object:
    found: list[object] | None = [None] * 4 if dist.get_rank() == 2 else None
    dist.gather_object({"rank": dist.get_rank()}, found, dst=2)
    return found


@check("scatter_object_list")
def scatter_object_list() -> object:
    found: list[object] = [None]
    dist.scatter_object_list(found, [f"for {i}" for i in range(4)] if dist.get_rank() == 0 else None, src=0)
    return found


@check("barrier")
def barrier() -> object:
    dist.barrier()
    dist.barrier(async_op=True).wait()
    return None


@check("monitored_barrier")
def monitored_barrier() -> object:
    dist.monitored_barrier(wait_all_ranks=True)
    return None


@check("_coalescing_manager, fast path")
def coalescing_fast() -> object:
    data = [mine(2) * (i + 1) for i in range(3)]
    with dist._coalescing_manager():
        for tensor in data:
            dist.all_reduce(tensor)
    return data


@check("_coalescing_manager, async_ops")
def coalescing_async() -> object:
    data = [mine(2) * (i + 1) for i in range(3)]
    with dist._coalescing_manager(async_ops=True) as works:
        for tensor in data:
            dist.all_reduce(tensor)
    works.wait()
    return data


if __name__ == "__main__":
    main()
