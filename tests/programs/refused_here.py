"""A program whose calls do not fit; it goes on with what is right, as under a real backend."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
refused = 0
for call in (
    lambda: dist.all_gather_into_tensor(torch.zeros(4, dtype=torch.int32), torch.ones(2)),
    lambda: dist.all_gather_into_tensor(torch.zeros(5), torch.ones(2)),
    lambda: dist.reduce_scatter_tensor(torch.zeros(3), torch.arange(4.0)),
    lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND),
    lambda: dist.all_reduce(torch.ones(2, dtype=torch.uint16)),
    lambda: dist.all_reduce(torch.ones(2).to_sparse()),
):
    try:
        call()
    except (RuntimeError, NotImplementedError):
        refused += 1
total = torch.ones(2)
dist.all_reduce(total)
print("REFUSED", refused, total.tolist())
dist.destroy_process_group()
