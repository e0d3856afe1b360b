"""Rank 0 reads a key that nobody sets; the others wait for it in a barrier."""

import torch.distributed as dist

dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    store.get("never")  # site A
dist.barrier()  # site B
