"""The memory of a rank on a GPU, as torch's caching allocator counts it; the limit is torch's own as well."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from prism.gpu.cuda.peaks import Peaks
from prism.gpu.meter.memory import Label, PeakParts

BLOCK = 512
"""Bytes to which torch's allocator rounds a block up."""
HISTORY = 100_000
"""Allocations and frees that a snapshot tells of, at most."""


class CudaMeter:
    """The figures of the device that the program uses, of several that of which they are highest.

    Peaks are those of the whole run, also where the program resets them. Where the program brings an allocator of its
    own, which counts nothing, they are None.
    """

    reason: str | None = None

    def __init__(self, snapshot: Path) -> None:
        self._snapshot = snapshot
        self._peaks = Peaks()
        self._ran_out: int | None = None  # bytes that tensors took when memory ran out
        self._labelled: dict[int, tuple[Label, int]] = {}  # address of a block -> what it is for, and its size

    def limit(self, capacity: int) -> None:
        """Let torch refuse what would make the reserved bytes more than `capacity`, with its own exception."""
        torch.cuda._lazy_call(lambda: self._limit(capacity))  # type: ignore[no-untyped-call]

    @property
    def peak_bytes(self) -> int | None:
        """The most that tensors took, as `max_memory_allocated` counts it."""
        return _highest(self._peaks.allocated)

    @property
    def reserved_bytes(self) -> int | None:
        """The most that the allocator held, as `max_memory_reserved` counts it."""
        return _highest(self._peaks.reserved)

    def lap(self) -> int | None:
        """The most that tensors took since the last lap; resets of the peak do not matter to it."""
        return _highest(self._peaks.lap)

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
        if not _in_use() or not _counts():
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


def _highest(figure: Callable[[int], int]) -> int | None:
    """A figure of the device of which it is highest; 0 before the program uses one."""
    if not _counts():
        return None
    return max((figure(device) for device in _devices()), default=0)


def _devices() -> Iterator[int]:
    """Those on which the process has a context."""
    for device in range(torch.cuda.device_count()) if _in_use() else ():
        if torch._C._cuda_hasPrimaryContext(device):  # type: ignore[attr-defined]  # torch's stub leaves it out
            yield device


def _counts() -> bool:
    """Whether torch's allocator counts; one that the program brings does not."""
    return torch.cuda.get_allocator_backend() != "pluggable"


def _in_use() -> bool:
    """Whether the program has used CUDA by now; asking for figures must not make a context."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
