"""A pipeline, times data and tensor parallel, whose schedule and number of micro-batches are arguments.

    micro_batches.py SCHEDULE MICRO_BATCHES REPLICAS SHARDS

SCHEDULE: gpipe or 1f1b. Ranks are (stage, replica, shard), the last varies fastest. Two iterations; what is computed is
nothing.
"""

import sys

import torch
import torch.distributed as dist

schedule = sys.argv[1]
micro_batches, replicas, shards = map(int, sys.argv[2:])
dist.init_process_group("gloo")
rank, width = dist.get_rank(), replicas * shards
stages, stage = dist.get_world_size() // width, rank // width
before = rank - width if stage > 0 else None
after = rank + width if stage < stages - 1 else None
mesh = torch.arange(dist.get_world_size()).view(stages, replicas, shards)
tensor_parallel, _ = dist.new_subgroups_by_enumeration(mesh.reshape(-1, shards).tolist())
data_parallel, _ = dist.new_subgroups_by_enumeration(mesh.movedim(1, -1).reshape(-1, replicas).tolist())
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.0)


def run(source, target):
    """Take a micro-batch through the layers of this stage; returns what it sends, in a list."""
    if source is not None:
        dist.recv(torch.empty(16), source)
    for _ in range(2):
        dist.all_reduce(torch.ones(8), group=tensor_parallel)
    return [dist.isend(torch.ones(16), target)] if target is not None else []


for _ in range(2):
    sent = []
    ahead = micro_batches if schedule == "gpipe" else min(stages - stage - 1, micro_batches)
    for _ in range(ahead):
        sent += run(before, after)
    for _ in range(micro_batches - ahead):
        sent += run(before, after)
        sent += run(after, before)
    for _ in range(ahead):
        sent += run(after, before)
    for work in sent:
        work.wait()
    dist.all_reduce(torch.ones(32), group=data_parallel)
    optimizer.step()
