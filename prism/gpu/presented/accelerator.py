"""torch.accelerator, torch's way to say "the GPU" without its maker's name: what it asks of C++ is answered here."""

from __future__ import annotations

from typing import Any

import torch

from prism.gpu.presented.placement import Placement


def install(placement: Placement) -> None:
    """Replace the functions of torch._C that torch.accelerator is made of."""
    core: Any = torch._C
    core._get_accelerator = lambda check=False: torch.device("cuda")
    core._accelerator_getAccelerator = lambda: torch.device("cuda")
    core._accelerator_getDeviceIndex = lambda: torch.cuda.current_device()
    core._accelerator_setDeviceIndex = lambda index: torch.cuda.set_device(index)
    core._accelerator_exchangeDevice = placement.choose
    core._accelerator_maybeExchangeDevice = lambda index: placement.choose(index)
    core._accelerator_getStream = lambda index: torch.cuda.current_stream(index)
    core._accelerator_setStream = lambda stream: torch.cuda.set_stream(stream)
    core._accelerator_synchronizeDevice = lambda index: torch.cuda.synchronize(index)
    accelerator: Any = torch.accelerator
    accelerator.device_count = lambda: placement.count
    accelerator.is_available = lambda: True
    accelerator.get_device_capability = lambda device=None: torch.cuda.get_device_capability(device)
    for module in (accelerator, accelerator.memory):
        module.get_memory_info = lambda device=None: torch.cuda.mem_get_info(device)
        for name in ("empty_cache", "memory_stats", "memory_allocated", "max_memory_allocated", "memory_reserved",
                     "max_memory_reserved", "reset_peak_memory_stats", "reset_accumulated_memory_stats"):  # fmt: skip
            setattr(module, name, getattr(torch.cuda, name))
