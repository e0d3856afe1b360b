"""Training on a mesh, such as `dp=2,tp=2` (row-major): every rank does what its pipeline stage does.

Along tp activations are summed, along pp they are sent on, along dp gradients are summed and scattered, parameters
gathered and tokens exchanged; the whole world meets now and then.
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

extents = {name: int(extent) for name, extent in (part.split("=") for part in sys.argv[1].split(","))}
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", tuple(extents.values()), mesh_dim_names=tuple(extents))
groups = {name: mesh.get_group(name) for name in extents}
weight = torch.nn.Parameter(torch.ones(48))
optimizer = torch.optim.SGD([weight])
config = torch.zeros(3)
dist.broadcast(config, 1)


def stage():
    if "pp" not in groups:
        return compute()
    before, after = mesh.get_local_rank("pp") - 1, mesh.get_local_rank("pp") + 1
    peers = dist.get_process_group_ranks(groups["pp"])
    for tag in (1, 0):
        if before >= 0:
            dist.recv(torch.zeros(16), peers[before], tag=tag)
        compute()
        if after < len(peers):
            dist.send(torch.ones(16), peers[after], tag=tag)
    return None


def compute():
    if "tp" in groups:
        dist.all_reduce(torch.ones(32), group=groups["tp"])


for _ in range(2):
    shard = torch.ones(48 // extents["dp"])
    dist.all_gather_into_tensor(torch.empty(48), shard, group=groups["dp"])
    stage()
    dist.all_to_all_single(torch.empty(24), torch.ones(24), group=groups["dp"])
    works = [
        dist.reduce_scatter_tensor(torch.empty_like(shard), torch.ones(48), group=groups["dp"], async_op=True),
        dist.all_reduce(torch.ones(4), group=groups["dp"], async_op=True),
    ]
    for work in works:
        work.wait()
    dist.reduce(torch.ones(1), 0)
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
