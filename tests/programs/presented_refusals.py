"""What needs a real GPU, one call a line; prints each error, and what of torch.cuda nobody has decided about."""

import importlib
import os

import torch


def kernel() -> None:
    importlib.import_module("triton")


ATTEMPTS = {
    "graph": lambda: torch.cuda.CUDAGraph(),
    "capture": lambda: torch.cuda.graph(None),
    "kernel": kernel,
    "pool": lambda: torch.cuda.MemPool(),
    "handle": lambda: torch.cuda.get_device_handle(0),
    "power": lambda: torch.cuda.power_draw(),
    "replicas": lambda: torch.nn.DataParallel(torch.nn.Linear(2, 2).cuda())(torch.ones(4, 2, device="cuda")),
    "device": lambda: torch.zeros(2, device=f"cuda:{torch.cuda.device_count()}"),
}
for name, attempt in ATTEMPTS.items():
    try:
        attempt()
    except (RuntimeError, ImportError) as error:
        print(f"refused {name}: {error}")

SELF_CONTAINED = {  # written in terms of the others, or without a device
    "CudaError", "DeferredCudaCallError", "caching_allocator_disabled", "check_error", "cudaStatus", "device",
    "device_of", "memory_summary",
}  # fmt: skip
PRESENTED = "prism.gpu.presented"
for name in torch.cuda.__all__:
    member = getattr(torch.cuda, name)
    made = member.__init__ if isinstance(member, type) else member
    ours = getattr(made, "__module__", "").startswith(PRESENTED)
    if callable(member) and not (ours or name in SELF_CONTAINED or name.endswith(("Storage", "Tensor"))):
        print(f"undecided {name}")
print(f"devices {torch.cuda.device_count()} of {os.environ['WORLD_SIZE']}")
