"""Two threads of each rank post on the same group, one after the other: it goes well here, and may not elsewhere."""

import threading

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(2)
dist.all_reduce(x)
thread = threading.Thread(target=dist.all_reduce, args=(x,))
thread.start()
thread.join()
print(x.tolist(), flush=True)
dist.destroy_process_group()
