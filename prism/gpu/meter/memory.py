"""The memory meter: how many bytes the CPU tensors of this process hold, held at most, and may hold."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, ParamSpec, TypeVar

import torch  # loads the libraries that the extension links to, so it stands before the extension's import

from prism.errors import RunError

P = ParamSpec("P")
T = TypeVar("T")


class MemoryStats(NamedTuple):
    """Bytes held by tensors: exact, and with each block rounded up to 512 bytes as CUDA's caching allocator does."""

    current: int
    peak: int
    current_rounded: int
    peak_rounded: int


class Label(IntEnum):
    """What a block is for."""

    PARAMETER = 0
    GRADIENT = 1
    OPTIMIZER = 2


class PeakParts(NamedTuple):
    """Rounded bytes of the peak by label, and those that bore none and have been freed since."""

    parameters: int
    gradients: int
    optimizer: int
    returned: int


_highest = 0  # rounded bytes: the peak before the program began it anew, whichever meter it used for that


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

    def limit(self, capacity: int) -> None:
        """Refuse, with torch.OutOfMemoryError, any block that would make the rounded bytes held more than `capacity`.

        Raises RunError where counting does not work.
        """
        if self.reason is not None:
            raise RunError(f"devices.memory cannot be enforced: {self.reason}")
        self._allocator.set_limit(capacity)

    def stats(self) -> MemoryStats | None:
        """What is held now and what was held at most since the last reset, in bytes."""
        return MemoryStats(*self._allocator.stats()) if self.reason is None else None

    @property
    def peak_bytes(self) -> int | None:
        """The highest rounded peak of the process: what a GPU's `max_memory_allocated` is if it is never reset."""
        stats = self.stats()
        return None if stats is None else max(stats.peak_rounded, _highest)

    reserved_bytes: int | None = None
    """What the allocator holds beside tensors is not known on a CPU."""

    def snapshot(self) -> str:
        """The file with what is held; there is none on a CPU."""
        return ""

    def reset_peak(self) -> None:
        """Let the peak start again from what is held now."""
        global _highest
        stats = self.stats()
        if stats is not None:
            _highest = max(_highest, stats.peak_rounded)
            self._allocator.reset_peak()

    def lap(self) -> int | None:
        """The most rounded bytes that were held since the last lap; resets of the peak do not matter to it."""
        return self._allocator.lap() if self.reason is None else None

    def label(self, tensors: Sequence[torch.Tensor], label: Label) -> None:
        """Say what the blocks of these tensors are for; the first label of a block stays."""
        if self.reason is None:
            self._allocator.label(tensors, label)

    def peak_parts(self) -> PeakParts | None:
        """What the peak was made of, as far as is known by now."""
        return PeakParts(*self._allocator.peak_parts()) if self.reason is None else None


def uncounted(function: Callable[P, T]) -> Callable[P, T]:
    """Let blocks that the function allocates, in its thread, be PRISM's own: neither counted nor limited.

    No context manager: Dynamo, which leaves PRISM's code alone, would follow the standard library's part of it.
    """

    @functools.wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            from prism.gpu import _allocator
        except ImportError:  # nothing is counted
            return function(*args, **kwargs)
        before = _allocator.count_here(False)
        try:
            return function(*args, **kwargs)
        finally:
            _allocator.count_here(before)

    return alone
