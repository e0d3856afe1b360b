"""Allocates known tensors under the memory meter and prints what it counted; run in a process of its own."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch

from prism.gpu.memory import MemoryMeter, MemoryStats

THREADS = 4
ROUNDS = 500


def sequence(meter: MemoryMeter) -> list[MemoryStats | None]:
    """1,000 floats, then 3 more bytes, then 100 floats in place of the first."""
    first = torch.empty(1000)
    small = torch.empty(3, dtype=torch.uint8)
    both = meter.stats()
    del first
    third = torch.empty(100)
    after = meter.stats()
    meter.reset_peak()
    reset = meter.stats()
    del small, third
    return [both, after, reset, meter.stats()]


def threads(meter: MemoryMeter) -> list[MemoryStats | None]:
    """Every thread holds one kilobyte at one moment, then all allocate and free at once, also each other's blocks."""
    everyone = Barrier(THREADS)

    def churn(_: int) -> torch.Tensor:
        held = torch.empty(1024, dtype=torch.uint8)
        everyone.wait()
        del held
        everyone.wait()
        for size in range(1, ROUNDS):
            torch.empty(size, dtype=torch.uint8)
        return torch.empty(256, dtype=torch.uint8)

    meter.reset_peak()
    with ThreadPoolExecutor(THREADS) as pool:
        blocks = list(pool.map(churn, range(THREADS)))
    held = meter.stats()
    blocks.clear()  # made on the pool's threads, freed on this one
    return [held, meter.stats()]


def main() -> None:
    torch.set_num_threads(1)
    older = torch.empty(5000)
    meter = MemoryMeter()
    del older
    cases = {"older": [meter.stats()], "sequence": sequence(meter), "threads": threads(meter)}
    json.dump({"reason": meter.reason, **cases}, sys.stdout)


if __name__ == "__main__":
    main()
