"""Takes and gives back memory of the device, and prints all that torch then says of it; `laps`: under PRISM's meter.

Run in a process of its own: python -m tests.cuda.peaks_program [laps]. Both runs have to print the same.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import torch

from prism.gpu.cuda.meter import CudaMeter

STEPS = 300
MOST = 24 << 20


class Seen:
    """What torch says of every device, after each step."""

    def __init__(self) -> None:
        self.views: list[Any] = []

    def look(self) -> None:
        for device in range(torch.cuda.device_count()):
            self.views.append(torch.cuda.memory_stats(device))
            self.views.append(torch.accelerator.memory.memory_stats(device))
            self.views.append([torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)])

    def look_closely(self) -> None:
        for device in range(torch.cuda.device_count()):
            self.views.append(torch.cuda.memory_summary(device))
        segments = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        self.views.append(sorted([segment["total_size"], segment["allocated_size"]] for segment in segments))
        self.views.append(torch.cuda.host_memory_stats())


def main(lapped: bool) -> None:
    """Run the steps; the last line has the laps and the peak of the run."""
    meter = CudaMeter(Path("unused")) if lapped else None
    chance, seen = random.Random(7), Seen()
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    pool = torch.cuda.MemPool()
    held: list[torch.Tensor] = []
    laps = []
    for _ in range(STEPS):
        act(chance, devices, pool, held)
        if meter is not None:
            laps.append(meter.lap())
        seen.look()
    seen.look_closely()
    print(json.dumps(seen.views))
    print(json.dumps([laps, meter.peak_bytes] if meter is not None else None))


def act(chance: random.Random, devices: list[torch.device], pool: Any, held: list[torch.Tensor]) -> None:
    """One step, the same ones in every run."""
    device, size = chance.choice(devices), int(MOST ** chance.random())
    match chance.randrange(10):
        case 0:
            torch.cuda.reset_peak_memory_stats(device)
        case 1:
            torch.accelerator.memory.reset_peak_memory_stats(device)
        case 2:
            torch.cuda.reset_accumulated_memory_stats(device)
        case 3:
            with torch.cuda.use_mem_pool(pool, devices[0]):
                held.append(torch.empty(size, dtype=torch.uint8, device=devices[0]))
        case 4:
            torch.cuda.empty_cache()
        case 5:  # a peak that is gone by the lap
            torch.empty(size, dtype=torch.uint8, device=device)
        case 6 | 7:
            held.append(torch.empty(size, dtype=torch.uint8, device=device))
        case _:
            if held:
                del held[chance.randrange(len(held))]


if __name__ == "__main__":
    main(sys.argv[1:] == ["laps"])
