"""Rank 0 stays for good at its third run, and the others in an operation with it; says so through a named pipe.

The first run is the capture, the second the calibration, the third the emulation.
"""

import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

pipe, runs = (Path(argument) for argument in sys.argv[1:3])
dist.init_process_group("gloo")
rank = dist.get_rank()
parameter = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([parameter], lr=0.0)
run = len(list(runs.glob(f"{rank}.*")))
(runs / f"{rank}.{run}").touch()
for step in range(2):
    if step == 1 and run == 2 and rank == 0:
        pipe.write_text("here")
        signal.pause()
    sums = torch.linspace(0.1 * rank, 1.7, 1000)
    dist.all_reduce(sums)
    print(step, sums.double().sum().item(), flush=True)
    optimizer.step()
dist.destroy_process_group()
