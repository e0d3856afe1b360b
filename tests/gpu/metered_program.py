"""Allocates known tensors under the memory meter and prints what it counted; run in a process of its own."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch

from prism.gpu.meter.memory import MemoryMeter, MemoryStats, uncounted

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


def laps(meter: MemoryMeter) -> list[int | None]:
    """1,024 bytes that stay and 2,048 that come and go; nothing; 512 after a reset of the peak; nothing held."""
    meter.lap()
    held = torch.empty(1024, dtype=torch.uint8)
    torch.empty(2048, dtype=torch.uint8)
    told = [meter.lap(), meter.lap()]
    more = torch.empty(512, dtype=torch.uint8)
    del more
    meter.reset_peak()
    told.append(meter.lap())
    del held
    return [*told, meter.lap(), meter.lap()]


def limited(meter: MemoryMeter) -> list[str]:
    """What is refused on a device of 2,048 bytes that holds 1,024."""
    meter.limit(2048)
    held = torch.empty(1024, dtype=torch.uint8)
    refused = []
    for nbytes in (1025, 1024, 2**62):
        try:
            torch.empty(nbytes, dtype=torch.uint8)
        except torch.OutOfMemoryError as error:
            refused.append(str(error))
    meter.limit(2**63)
    del held
    return refused


def own(meter: MemoryMeter) -> list[MemoryStats | None]:
    """A block of PRISM's beside one of the program's; the first outlives the function that it was made in."""
    meter.reset_peak()
    block = uncounted(torch.empty)(5000)
    other = torch.empty(1, dtype=torch.uint8)
    both = meter.stats()
    del block, other
    return [both, meter.stats()]


def main() -> None:
    torch.set_num_threads(1)
    older = torch.empty(5000)
    meter = MemoryMeter()
    del older
    cases = {"older": [meter.stats()], "sequence": sequence(meter), "threads": threads(meter), "own": own(meter)}
    json.dump({"reason": meter.reason, "laps": laps(meter), "refused": limited(meter), **cases}, sys.stdout)


if __name__ == "__main__":
    main()
