"""torch.distributed on GPUs: NCCL's name and options, and where C++ is given a device; groups are PRISM's anyway."""

from __future__ import annotations

import contextlib
import functools
import importlib
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
import torch.distributed.fsdp

from prism.gpu.presented.placement import CPU


class ProcessGroupNCCL:
    """A class that no group is of, with the options that programs fill in."""

    class Options:
        """Accepted, and without effect."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream
            self.config = SimpleNamespace()


_TORCHS: Any = c10d.BarrierOptions


class BarrierOptions(_TORCHS):  # type: ignore[misc]
    """Those of a barrier, for which C++ would make a tensor on the device."""

    @property
    def device(self) -> torch.device:
        """Always the CPU."""
        return CPU

    @device.setter
    def device(self, device: torch.device) -> None:
        _TORCHS.device.fset(self, CPU)


def install() -> None:
    """Let torch.distributed say that NCCL is there."""
    for module in (dist, c10d):
        space: Any = module
        space.ProcessGroupNCCL = ProcessGroupNCCL
    place: Any = c10d
    place.BarrierOptions = BarrierOptions
    place._NCCL_AVAILABLE = True
    place.default_pg_nccl_timeout = timedelta(minutes=10)  # as NCCL's groups have it
    with contextlib.suppress(ImportError):  # the process group in Python cannot be split
        backend: Any = importlib.import_module("prism.gpu._backend").Backend
        backend.options = None  # torch's split_group copies its parent's: none given, the C++ side takes its own
    _install_fsdp()


def _install_fsdp() -> None:
    """torch makes a device of an integer only where it was built for GPUs; FSDP is often given one."""
    wrapper: Any = torch.distributed.fsdp.FullyShardedDataParallel
    begin = wrapper.__init__

    @functools.wraps(begin)
    def initialize(self: Any, *args: Any, device_id: Any = None, **kwargs: Any) -> None:
        device = torch.device("cuda", device_id) if isinstance(device_id, int) else device_id
        begin(self, *args, device_id=device, **kwargs)

    wrapper.__init__ = initialize
