"""Sums 400,000 bytes, and takes no notice of errors."""

import contextlib

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
with contextlib.suppress(Exception):
    dist.all_reduce(torch.ones(100_000))
dist.barrier()
