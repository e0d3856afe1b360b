"""FSDP2 over a device mesh of GPUs, with NCCL."""

import os

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
torch.manual_seed(5)
with torch.device("meta"):
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model:
    fully_shard(layer, mesh=mesh, mp_policy=mixed)
fully_shard(model, mesh=mesh)
model.to_empty(device="cuda")
for parameter in model.parameters():
    torch.nn.init.normal_(parameter, std=0.1)
    assert parameter.device.type == "cuda"
    assert parameter.to_local().is_cuda
    assert not torch.equal(*parameter.full_tensor().chunk(2)), "the two shards hold different numbers"
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(3):
    loss = model(torch.ones(2, 16, device="cuda") * (dist.get_rank() + 1)).float().square().mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(f"loss {loss.item():.6f} norm {norm.full_tensor().item():.6f}", flush=True)
state = get_model_state_dict(model)
assert len(state) == 6
print("done", flush=True)
