"""Copies between the device and host memory of several kinds, for gpu_switch_rank.py; no paging is in it."""

from __future__ import annotations

import functools
import mmap
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from prism.gpu.cuda.residency_abi import SLOT

PORTABLE = 1


def copies(kind: str, way: str, gib: float, times: int) -> dict[str, Any]:
    """Copy so much so often, out of the device or back; when that began and ended, by a clock that processes share."""
    host, device = buffers(kind, int(gib * (1 << 30)))
    pieces = [(host, device)] if kind == "whole" else list(zip(host.split(SLOT), device.split(SLOT), strict=True))
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(times):
        for there, here in pieces:
            if way == "back":
                here.copy_(there, non_blocking=True)
            else:
                there.copy_(here, non_blocking=True)
    torch.cuda.synchronize()
    return {"begin": begin, "end": time.monotonic(), "bytes": times * host.numel(), "huge_bytes": huge_bytes()}


@functools.cache
def buffers(kind: str, nbytes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pinned host memory of a kind, and the device's."""
    if kind in ("whole", "pinned"):
        host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
    else:
        host = torch.frombuffer(mapped(kind, nbytes), dtype=torch.uint8).fill_(1)
        for start in range(0, nbytes, SLOT):
            code = int(torch.cuda.cudart().cudaHostRegister(host.data_ptr() + start, SLOT, PORTABLE))
            assert code == 0, f"cudaHostRegister: {code}"
    return host, torch.empty(nbytes, dtype=torch.uint8, device="cuda")


def mapped(kind: str, nbytes: int) -> mmap.mmap:
    """Memory of a file beside the host pool, or of this process alone; huge pages are asked for."""
    if kind == "shared":
        with tempfile.TemporaryFile(dir=Path(os.environ["POOL"]).parent) as file:
            file.truncate(nbytes)
            memory = mmap.mmap(file.fileno(), nbytes)
    else:
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def huge_bytes() -> int:
    """How much of this process's memory is in huge pages."""
    lines = (line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines())
    kinds = ("AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:")
    return sum(1024 * int(words[1]) for words in lines if words[0] in kinds)
