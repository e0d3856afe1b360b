"""A thread of each rank reduces on a group of its own while the main thread waits for it."""

import threading

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
group = dist.new_group()
data = torch.ones(4)
thread = threading.Thread(target=lambda: dist.all_reduce(data, group=group))
thread.start()
thread.join()
print(data.tolist(), flush=True)
