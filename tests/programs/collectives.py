"""Every ordinary call of torch.distributed on four ranks; each prints a line a call, with its name and values.

All values are small integers, which any type holds and any order sums exactly.
"""

import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

warnings.simplefilter("ignore")  # torch announces the renaming of what it still exports

TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8)
ARITHMETIC = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
BITWISE = (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)


def mine(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values that differ from rank to rank and from place to place."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 3 + rank + 1).to(dtype).view(shape)


def show(name: str, *values: object) -> None:
    print(name, *(v.tolist() if isinstance(v, torch.Tensor) else v for v in values), flush=True)


def reductions() -> None:
    for op in ARITHMETIC:
        for dtype in TYPES:
            data = mine(5, dtype=dtype)
            dist.all_reduce(data, op)
            show(f"all_reduce {op} {dtype}", data)
    data = mine(5)
    dist.all_reduce(data, dist.ReduceOp.AVG)
    show("all_reduce avg", data)
    for op in BITWISE:
        for dtype in (torch.int64, torch.int32, torch.uint8):
            data = mine(5, dtype=dtype)
            dist.all_reduce(data, op)
            show(f"all_reduce {op} {dtype}", data)
    for root in range(4):
        data = mine(6)
        dist.reduce(data, root)
        if rank == root:
            show(f"reduce to {root}", data)
    data = [mine(3), mine(2, 2)]
    dist.all_reduce_coalesced(data)
    show("all_reduce_coalesced", *data)
    data = torch.tensor(rank + 1.0)
    dist.all_reduce(data)
    show("all_reduce of a scalar", data)


def copies() -> None:
    for dtype in (*TYPES, torch.bool, torch.complex64):
        data = mine(4, dtype=dtype)
        dist.broadcast(data, 2)
        show(f"broadcast {dtype}", data)
    parts = [torch.zeros(2, 3) for _ in range(4)]
    dist.all_gather(parts, mine(2, 3))
    show("all_gather", *parts)
    flags = [torch.zeros(2, dtype=torch.bool) for _ in range(4)]
    dist.all_gather(flags, torch.tensor([rank % 2 == 0, rank > 1]))
    show("all_gather of bool", *flags)
    whole, stacked = torch.zeros(8), torch.zeros(4, 2)
    dist.all_gather_into_tensor(whole, mine(2))
    dist.all_gather_into_tensor(stacked, mine(1, 2))
    show("all_gather_into_tensor", whole, stacked)
    parts = [torch.zeros(3) for _ in range(4)] if rank == 1 else None
    dist.gather(mine(3), parts, dst=1)
    show("gather", *(parts or []))
    data = torch.zeros(3)
    dist.scatter(data, [mine(3) * (i + 1) for i in range(4)] if rank == 3 else None, src=3)
    show("scatter", data)


def shards() -> None:
    data = torch.zeros(2)
    dist.reduce_scatter_tensor(data, mine(8))
    show("reduce_scatter_tensor", data)
    data = torch.zeros(2)
    dist.reduce_scatter(data, [mine(2) * (i + 1) for i in range(4)])
    show("reduce_scatter", data)
    data = torch.zeros(4, 2)
    dist.all_to_all_single(data, mine(4, 2))
    show("all_to_all_single", data)
    send = [(rank + i) % 3 for i in range(4)]  # rows, some of them none
    receive = [(i + rank) % 3 for i in range(4)]
    data = torch.zeros(sum(receive), 2)
    dist.all_to_all_single(data, mine(sum(send), 2), receive, send)
    show("all_to_all_single uneven", data)
    send, receive = ([3, 0, 0, 0], [3, 3, 3, 3]) if rank == 0 else ([3, 0, 0, 0], [0, 0, 0, 0])
    data = torch.zeros(sum(receive))
    dist.all_to_all_single(data, mine(3), receive, send)
    show("all_to_all_single to one rank", data)


def messages() -> None:
    following, before = (rank + 1) % 4, (rank - 1) % 4
    data = torch.zeros(3)
    if rank % 2 == 0:
        dist.send(mine(3), following)
        dist.recv(data, before)
    else:
        dist.recv(data, before)
        dist.send(mine(3), following)
    show("send and recv", data)
    data = torch.zeros(3)
    sending, receiving = dist.isend(mine(3), before), dist.irecv(data, following)
    receiving.wait()
    sending.wait()
    show("isend and irecv", data)
    data = torch.zeros(2, 3)
    ops = [dist.P2POp(dist.isend, mine(3), following), dist.P2POp(dist.isend, mine(3) * 10, before)]
    ops += [dist.P2POp(dist.irecv, data[0], before), dist.P2POp(dist.irecv, data[1], following)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    show("batch_isend_irecv", data)
    data = torch.zeros(2, 2)
    if rank == 0:
        works = [dist.isend(mine(2) * tag, 1, tag=tag) for tag in (7, 8)]
    elif rank == 1:
        works = [dist.irecv(data[tag - 7], 0, tag=tag) for tag in (8, 7)]
    else:
        works = []
    for work in works:
        work.wait()
    show("tags", data)
    if rank == 0:
        data = torch.zeros(3, 2)
        sources = [dist.recv(row) for row in data]
        show("any source", sorted(sources), sorted(data.tolist()))
    else:
        dist.send(mine(2), 0)


def objects() -> None:
    given = [{"rank": rank, "text": "x" * (rank + 1)}, None]
    dist.broadcast_object_list(given, 1)
    show("broadcast_object_list", given)
    found = [None] * 4
    dist.all_gather_object(found, ("rank", rank, "y" * rank))
    show("all_gather_object", found)
    found = [None] * 4 if rank == 2 else None
    dist.gather_object({rank}, found, dst=2)
    show("gather_object", found)
    found = [None]
    dist.scatter_object_list(found, [f"for {i}" for i in range(4)] if rank == 0 else None, src=0)
    show("scatter_object_list", found)
    if rank < 2:
        found = [None, None]
        if rank == 0:
            dist.send_object_list(["a", {"b": 2}], 1)
        else:
            dist.recv_object_list(found, 0)
        show("send_object_list", found)


def asynchronous() -> None:
    data = [mine(3) * (i + 1) for i in range(3)]
    works = [dist.all_reduce(d, async_op=True) for d in data]
    for work in reversed(works):
        work.wait()
    show("async_op", *data, [work.is_completed() for work in works])
    data = mine(3)
    doubled = dist.all_reduce(data, async_op=True).get_future().then(lambda future: future.value()[0] * 2)
    show("then", doubled.wait())
    data = [mine(3), mine(2)]
    with dist._coalescing_manager(async_ops=True) as batch:
        for d in data:
            dist.all_reduce(d)
    batch.wait()
    show("_coalescing_manager", *data)
    dist.barrier()
    dist.monitored_barrier()
    show("barriers")


def groups() -> None:
    pairs = [dist.new_group([i, i + 1]) for i in (0, 2)]
    pair, odd = pairs[rank // 2], dist.new_group([3, 1])
    data = mine(3)
    dist.all_reduce(data, group=pair)
    show("all_reduce on a pair", data)
    if rank % 2:
        parts = [torch.zeros(2) for _ in range(2)]
        dist.all_gather(parts, mine(2), group=odd)
        show("all_gather on ranks 1 and 3", *parts, dist.get_rank(odd), dist.get_process_group_ranks(odd))
    data = mine(2)
    dist.broadcast(data, group=pair, group_src=1)
    show("broadcast by group rank", data)
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    data = mine(2)
    dist.all_reduce(data, group=mesh.get_group("dp"))
    dist.all_reduce(data, group=mesh.get_group("tp"))
    show("all_reduce over a mesh", data)
    dist.destroy_process_group(pair)


def layouts() -> None:
    data = mine(3, 4)
    dist.all_reduce(data.t())
    show("all_reduce of a transposed tensor", data)
    data = torch.empty(0, 3)
    dist.all_reduce(data)
    dist.broadcast(data, 1)
    show("no elements", data)
    data = mine(4).requires_grad_()
    with torch.no_grad():
        dist.all_reduce(data)
    show("all_reduce of a leaf", data.detach(), data.requires_grad)


def functional_collectives() -> None:
    ranks = [0, 1, 2, 3]
    show("functional all_reduce", functional.all_reduce(mine(3), "sum", ranks))
    show("functional all_gather", functional.all_gather_tensor(mine(2), 0, ranks))
    show("functional reduce_scatter", functional.reduce_scatter_tensor(mine(8), "sum", 0, ranks))
    show("functional all_to_all", functional.all_to_all_single(mine(4), None, None, ranks))
    show("functional broadcast", functional.broadcast(mine(2), 1, ranks))


dist.init_process_group("gloo")
rank = dist.get_rank()
for section in (reductions, copies, shards, messages, objects, asynchronous, groups, layouts, functional_collectives):
    section()
show("identity", dist.get_backend(), dist.get_world_size(), dist.is_initialized())

store = dist.PrefixStore("second", dist.distributed_c10d._get_default_store())
dist.destroy_process_group()
dist.init_process_group("gloo", store=store, rank=rank, world_size=4)
data = mine(2)
dist.all_reduce(data)
show("all_reduce in a second life", data)
dist.destroy_process_group()
