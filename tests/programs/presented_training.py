"""DDP training as written for a GPU: `.cuda()`, streams, events, mixed precision, and what CUDA says of itself."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
torch.cuda.manual_seed_all(7)
assert torch.cuda.is_available()
assert (torch.cuda.device_count(), torch.cuda.current_device()) == (2, local_rank)

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)).cuda()
model = DistributedDataParallel(model, device_ids=[local_rank])
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
scaler = torch.amp.GradScaler("cuda")
copies = torch.cuda.Stream()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record()
for _ in range(3):
    with torch.cuda.stream(copies):
        batch = torch.randn(4, 8).pin_memory().to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(copies)
    batch.record_stream(torch.cuda.current_stream())
    with torch.autocast("cuda"):
        output = model(batch)
        loss = output.float().square().mean()
    assert output.is_cuda
    assert (output.dtype, output.device) == (torch.float16, torch.device("cuda", local_rank))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    total = torch.zeros(1, device="cuda") + loss.detach()
    dist.all_reduce(total)
    print(f"loss {loss.item():.6f} total {total.item():.6f}", flush=True)
end.record()
torch.cuda.synchronize()
assert begin.elapsed_time(end) > 0
print(f"gpu {torch.cuda.get_device_name()} {torch.cuda.get_device_capability()} {dist.get_backend()}")
dist.barrier(device_ids=[local_rank])
dist.destroy_process_group()
print("peak", torch.cuda.max_memory_allocated(), flush=True)
