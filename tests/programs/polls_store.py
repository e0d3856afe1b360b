"""Rank 0 polls for a key of the store, which rank 1 sets after rank 0 has gone by its own first poll."""

import torch.distributed as dist

dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    store.set("polling", "yes")
    while not store.check(["ready"]):
        pass
    print(store.get("ready").decode(), flush=True)
else:
    store.wait(["polling"])
    store.set("ready", "now")
