"""Two ranks that both receive before they send."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
peer = 1 - dist.get_rank()
mine, theirs = torch.ones(4), torch.empty(4)
dist.recv(theirs, peer)  # site A
dist.send(mine, peer)
