"""Computes for 50 ms before each of three calls of the store, and once more before it reduces."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
for call in range(3):
    time.sleep(0.05)
    store.set(f"key {dist.get_rank()} {call}", "value")
time.sleep(0.05)
dist.all_reduce(torch.ones(1))
