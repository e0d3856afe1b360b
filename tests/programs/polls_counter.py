"""All ranks poll a counter of the store until everybody has counted."""

import torch.distributed as dist

dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
store.add("here", 1)
while store.add("here", 0) < dist.get_world_size():
    pass
print("all here", flush=True)
