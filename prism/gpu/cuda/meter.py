"""The memory of a rank on a GPU, as torch's caching allocator counts it; the limit is torch's own as well."""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from prism.gpu.meter.memory import Label, PeakParts

BLOCK = 512
"""Bytes to which torch's allocator rounds a block up."""
HISTORY = 100_000
"""Allocations and frees that a snapshot tells of, at most."""


class CudaMeter:
    """The figures of the device that the program uses; peaks are those of the whole run, also where it resets them."""

    reason: str | None = None

    def __init__(self, snapshot: Path) -> None:
        self._snapshot = snapshot
        self._allocated = 0  # peaks before the last reset
        self._reserved = 0
        self._ran_out: int | None = None  # bytes that tensors took when memory ran out
        self._labelled: dict[int, tuple[Label, int]] = {}  # address of a block -> what it is for, and its size
        for name in ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats"):
            self._keep_peaks(name)

    def limit(self, capacity: int) -> None:
        """Let torch refuse what would make the reserved bytes more than `capacity`, with its own exception."""
        torch.cuda._lazy_call(lambda: self._limit(capacity))  # type: ignore[no-untyped-call]

    @property
    def peak_bytes(self) -> int | None:
        """The most that tensors took, as `max_memory_allocated` counts it."""
        now = torch.cuda.max_memory_allocated() if _in_use() else 0
        return max(self._allocated, now)

    @property
    def reserved_bytes(self) -> int | None:
        """The most that the allocator held, as `max_memory_reserved` counts it."""
        now = torch.cuda.max_memory_reserved() if _in_use() else 0
        return max(self._reserved, now)

    def reset_peak(self) -> None:
        """Let the peaks start again."""
        if _in_use():
            torch.cuda.reset_peak_memory_stats()

    def label(self, tensors: Sequence[torch.Tensor], label: Label) -> None:
        """Say what the blocks of these tensors are for; noted only once memory has run out."""
        for tensor in tensors if self._ran_out is not None else ():
            block = tensor.untyped_storage()
            if tensor.is_cuda and block.nbytes():
                self._labelled.setdefault(block.data_ptr(), (label, -(-block.nbytes() // BLOCK) * BLOCK))

    def peak_parts(self) -> PeakParts | None:
        """What was held when memory ran out; None if it has not."""
        if self._ran_out is None:
            return None
        sizes = dict.fromkeys(Label, 0)
        for label, size in self._labelled.values():
            sizes[label] += size
        returned = max(0, self._ran_out - torch.cuda.memory_allocated())
        return PeakParts(sizes[Label.PARAMETER], sizes[Label.GRADIENT], sizes[Label.OPTIMIZER], returned)

    def snapshot(self) -> str:
        """Write what torch's allocator holds, for https://pytorch.org/memory_viz; returns the file, or "" for none."""
        if not _in_use():
            return ""
        self._ran_out = torch.cuda.memory_allocated()
        with contextlib.suppress(OSError):
            self._snapshot.parent.mkdir(exist_ok=True)
            self._snapshot.write_bytes(pickle.dumps(torch.cuda.memory._snapshot()))
            return str(self._snapshot)
        return ""

    def _limit(self, capacity: int) -> None:
        for device in range(torch.cuda.device_count()):
            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, capacity / total), device)
        torch.cuda.memory._record_memory_history(context="state", stacks="python", max_entries=HISTORY)

    def _keep_peaks(self, name: str) -> None:
        plain = getattr(torch._C, name)

        @functools.wraps(plain)
        def reset(*arguments: Any) -> Any:
            self._allocated, self._reserved = self.peak_bytes or 0, self.reserved_bytes or 0
            return plain(*arguments)

        setattr(torch._C, name, reset)


def _in_use() -> bool:
    """Whether the program has used CUDA by now; asking for figures must not make a context."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
