"""A pipeline of two stages on GPUs, with NCCL."""

import os

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

rank = int(os.environ["RANK"])
device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}")
dist.init_process_group("nccl")
torch.manual_seed(3)
stage = PipelineStage(torch.nn.Linear(8, 8, device=device), rank, 2, device)
schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
data = torch.randn(8, 8, device=device)
for _ in range(3):
    losses: list[torch.Tensor] = []
    schedule.step(*((data,) if rank == 0 else ()), **({"target": data, "losses": losses} if rank == 1 else {}))
    optimizer.step()
    optimizer.zero_grad()
    assert all(loss.device == device for loss in losses)
    print("losses", *(f"{loss.item():.6f}" for loss in losses), flush=True)
