"""A stand-in for the device of ranks that are answered from the record: its clock is the host's, it is never behind.

A fork server that imports this module has it in all its ranks. Tensors of the host count as the device's; what a stream
waits for, the program waits for here. So a rank goes the whole way, and who is told nothing waits for ever.
"""

from __future__ import annotations

import time
from typing import Any

from prism.gpu.cuda import life, link
from prism.gpu.meter.memory import MemoryMeter
from tests.gpu import fake_cuda


class FakeDriver(fake_cuda.FakeDriver):
    """Whose device has done what the host has put into it."""

    @property
    def ms(self) -> float:  # type: ignore[override]
        return time.monotonic_ns() / 1e6

    @ms.setter
    def ms(self, _: float) -> None:
        pass

    def sleep(self, ns: int) -> None:
        pass


def prepare(setup: Any, _: Any) -> MemoryMeter:
    return MemoryMeter()


link.Driver = FakeDriver  # type: ignore[misc]
life.prepare = prepare  # type: ignore[assignment]
