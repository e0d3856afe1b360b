"""Ranks that meet at the ports of the arguments, one after the other, as a world of the first argument's size."""

import os
import sys

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
for port in sys.argv[2:]:
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=int(sys.argv[1]))
    total = torch.tensor([rank])
    dist.all_reduce(total)
    store = dist.distributed_c10d._get_default_store()
    store.set(f"of {rank}", port)
    print(total.item(), store.num_keys() > 0, store.delete_key(f"of {rank}"), store.check([f"of {rank}"]))
    dist.destroy_process_group()
