"""A pipeline by torch.distributed.pipelining, one linear layer a stage: stages.py SCHEDULE MICRO_BATCHES."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining

name, micro_batches = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
schedule = getattr(pipelining, name)
rounds = 2 if issubclass(schedule, pipelining.schedules.PipelineScheduleMulti) else 1
numbers = [rank + world * turn for turn in range(rounds)]
stages = [pipelining.PipelineStage(nn.Linear(8, 8), number, world * rounds, torch.device("cpu")) for number in numbers]
optimizer = torch.optim.SGD([p for stage in stages for p in stage.submod.parameters()], lr=0.01)
run = schedule(stages[0] if rounds == 1 else stages, micro_batches, loss_fn=nn.functional.mse_loss)
for _ in range(2):
    batch = torch.ones(2 * micro_batches, 8)
    run.step(*((batch,) if rank == 0 else ()), **({"target": batch} if rank == world - 1 else {}))
    optimizer.step()
