"""What a rank's process does before its program, where tensors lie on a GPU; the fork server has not touched CUDA."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from prism.gpu.cuda import residency
from prism.gpu.cuda.link import CudaLink
from prism.gpu.cuda.meter import CudaMeter
from prism.gpu.rank.link import Link
from prism.net.messages import Setup

SCHEDULE_BLOCKING_SYNC = 4


def prepare(setup: Setup, link: Link) -> CudaMeter:
    """Make ready; returns the meter. A snapshot of memory goes beside the logs, if there is one."""
    assert isinstance(link, CudaLink), "ranks on a GPU have its link"
    if setup.stage == "capture":
        sleep_while_waiting()
        link.residency = residency.attach(setup, link)
    wrap_synchronise(link.settle)
    return CudaMeter(Path(setup.logs) / f"{link.rank}.memory.pickle")


def sleep_while_waiting() -> None:
    """Let a host thread that waits for the device sleep, and leave its core to others; before there is a context."""
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuInit(0)
    number, device = ctypes.c_int(), ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(number))
    for index in range(number.value):
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDevicePrimaryCtxSetFlags_v2(device, SCHEDULE_BLOCKING_SYNC)


def wrap_synchronise(settle: Callable[[], None]) -> None:
    """Let whoever waits for the whole device wait for its communication too, which is not all on the device here."""
    for name in ("_cuda_synchronize", "_accelerator_synchronizeDevice"):
        plain = getattr(torch._C, name)

        @functools.wraps(plain)
        def synchronise(*arguments: Any, plain: Callable[..., Any] = plain) -> Any:
            settle()
            return plain(*arguments)

        setattr(torch._C, name, synchronise)
