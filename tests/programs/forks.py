"""Ranks whose children end in the way that the argument names, or do what ranks do; each rank waits for its child."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter], lr=0.1)
child = os.fork()
if child == 0:
    if sys.argv[1] == "raise":
        raise ValueError("of the child")
    if sys.argv[1] == "step":
        parameter.grad = torch.ones(1)
        optimizer.step()
    if sys.argv[1] == "communicate":
        dist.all_reduce(torch.ones(1))
    sys.exit(5)
_, status = os.waitpid(child, 0)
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
parameter.grad = torch.ones(1)
optimizer.step()
print(os.waitstatus_to_exitcode(status), total.item())
