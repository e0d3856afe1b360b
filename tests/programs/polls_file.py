"""Rank 0 polls for the file that the first argument names, which rank 1 writes; it sleeps in between if told to."""

import sys
import time
from pathlib import Path

import torch.distributed as dist

dist.init_process_group("gloo")
path = Path(sys.argv[1])
if dist.get_rank() == 0:
    while not path.exists():
        if sys.argv[2] == "sleep":
            time.sleep(0.01)
else:
    path.touch()
dist.barrier()
print("seen", flush=True)
