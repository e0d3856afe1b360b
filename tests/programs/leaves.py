"""Rank 1 ends before the all_reduce, in the way that the first argument names; the others wait for it."""

import os
import signal
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()  # site B
if dist.get_rank() == 1:
    match sys.argv[1]:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            sys.exit(3)  # site C
        case "says_why":
            sys.exit("shard 7 is unreadable\nand 8 too")  # site D
        case "os_exit":
            os._exit(7)
        case "return":
            sys.exit(0)
        case "raise":
            raise RuntimeError("gives up")
dist.all_reduce(torch.ones(8))  # site A
