"""Every operation of torch.distributed that NCCL has, each rank with inputs of its own; prints what it gets."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.0)
halves = [dist.new_group(range(first, world, 2)) for first in (0, 1)]
half = halves[rank % 2]


def told(name: str, *tensors: torch.Tensor) -> None:
    print(name, [tensor.flatten().tolist() for tensor in tensors])


def own(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(count) % 7 + rank).to(dtype)


for _ in range(2):
    for dtype, reduce in ((torch.float32, "SUM"), (torch.int64, "MAX"), (torch.bool, "SUM")):
        tensor = own(5, dtype)
        dist.all_reduce(tensor, getattr(dist.ReduceOp, reduce))
        told("all_reduce", tensor)
    tensor = own(9)
    dist.reduce(tensor, 1)
    if rank == 1:
        told("reduce", tensor)
    tensor = own(4)
    dist.broadcast(tensor, world - 1)
    told("broadcast", tensor)
    even = [torch.empty(3) for _ in range(world)]
    dist.all_gather(even, own(3))
    told("all_gather", *even)
    uneven = [torch.empty(member + 1) for member in range(world)]
    dist.all_gather(uneven, own(rank + 1))
    told("uneven all_gather", *uneven)
    part = torch.empty(4)
    dist.reduce_scatter_tensor(part, own(4 * world))
    told("reduce_scatter", part)
    sums = [own(5), own(17)]
    with dist._coalescing_manager():
        for tensor in sums:
            dist.all_reduce(tensor)
    told("all_reduce of two at once", *sums)
    wholes, parts = ([torch.empty(count) for count in counts] for counts in ((3 * world, world), (2, 5)))
    with dist._coalescing_manager():
        for whole in wholes:
            dist.all_gather_into_tensor(whole, own(len(whole) // world))
    told("all_gather of two at once", *wholes)
    with dist._coalescing_manager():
        for part in parts:
            dist.reduce_scatter_tensor(part, own(len(part) * world))
    told("reduce_scatter of two at once", *parts)
    into = [torch.empty(2) for _ in range(world)] if rank == 0 else None
    dist.gather(own(2), into, 0)
    told("gather", *(into or []))
    part = torch.empty(2)
    dist.scatter(part, [own(2) * member for member in range(world)] if rank == 2 else None, 2)
    told("scatter", part)
    sizes = [(rank + member) % 3 for member in range(world)]
    got = torch.empty(sum(sizes))
    dist.all_to_all_single(got, own(sum(sizes)), sizes, sizes)
    told("all_to_all", got)
    kept = torch.empty(2)
    alone = [2 if member == rank else 0 for member in range(world)]
    dist.all_to_all_single(kept, own(2), alone, alone)
    told("all_to_all of its own", kept)
    tensor = own(6)
    work = dist.all_reduce(tensor, group=half, async_op=True)
    work.get_future().wait()
    told("future", tensor)
    sends = dist.P2POp(dist.isend, own(3), (rank + 1) % world)
    receives = dist.P2POp(dist.irecv, torch.empty(3), (rank - 1) % world)
    for work in dist.batch_isend_irecv([sends, receives]):
        work.wait()
    told("batch", receives.tensor)
    if rank in (0, 1):
        tensor = own(3)
        dist.send(tensor, 1) if rank == 0 else dist.recv(tensor, 0)
        told("message", tensor)
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    print("objects", objects)
    dist.barrier()
    optimizer.step()
dist.destroy_process_group()
