"""The memory meter: how many bytes the CPU tensors of this process hold, and held at most."""

from __future__ import annotations

from typing import NamedTuple

import torch  # loads the libraries that the extension links to, so it stands before the extension's import


class MemoryStats(NamedTuple):
    """Bytes held by tensors: exact, and with each block rounded up to 512 bytes as CUDA's caching allocator does."""

    current: int
    peak: int
    current_rounded: int
    peak_rounded: int


class MemoryMeter:
    """Counts tensor bytes of this process from its creation on.

    Blocks that are older stay uncounted, also when they are freed. `reason` is None where counting works, else one
    line that says why it does not; `stats` then gives None.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        try:
            from prism.gpu import _allocator
        except ImportError as error:
            self.reason = (
                f"peak memory is not metered: prism.gpu._allocator does not load with torch {torch.__version__} "
                f"({error}); build it with `pip install --no-build-isolation -e .` and a C++20 compiler"
            )
            return
        self._allocator = _allocator
        _allocator.install()
        _allocator.reset_peak()

    def stats(self) -> MemoryStats | None:
        """What is held now and what was held at most since the last reset, in bytes."""
        return MemoryStats(*self._allocator.stats()) if self.reason is None else None

    @property
    def peak_bytes(self) -> int | None:
        """The rounded peak, which is what a GPU's `max_memory_allocated` would count for the same tensors."""
        stats = self.stats()
        return None if stats is None else stats.peak_rounded

    def reset_peak(self) -> None:
        """Let the peak start again from what is held now."""
        if self.reason is None:
            self._allocator.reset_peak()
