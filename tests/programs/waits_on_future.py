"""Each rank waits for the future of an all_reduce, not for its work, and for one that `then` made of it."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
data = torch.ones(4)
work = dist.all_reduce(data, async_op=True)
doubled = work.get_future().then(lambda future: future.value()[0] * 2)
print(work.get_future().wait()[0].tolist(), doubled.wait().tolist(), flush=True)
