"""tests/jobs/job_megatron.py for so many steps, timed: prints the REF line that the other jobs print.

    python timed_megatron.py ITERATIONS TP PP EP VPP

An iteration ends with the optimizer's step, and with the device. Ranks share a device where there are too few.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

JOB = Path(__file__).parents[2] / "tests" / "jobs" / "job_megatron.py"
STEPS = "for step in range(3):"
BATCH = "x = next(it); pos = torch.arange(32)"
ON_DEVICE = 'x = next(it).cuda(); pos = torch.arange(32, device="cuda")'
"""The job leaves them on the CPU, which passes where that is presented as a GPU."""
END = 'dist.barrier(); print("done"'


class Timed:
    """An optimizer whose steps say when they are over."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._begun = time.perf_counter()
        self.ms: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)

    def step(self) -> Any:
        """The optimizer's, and the end of an iteration."""
        done = self._optimizer.step()
        torch.cuda.synchronize()
        now = time.perf_counter()
        self.ms.append(round(1e3 * (now - self._begun), 3))
        self._begun = now
        return done


def report(optimizer: Timed, losses: list[float]) -> None:
    """Print the line."""
    out = {"job": "megatron", "rank": dist.get_rank(), "ms": optimizer.ms, "loss": losses}
    memory = {"max_allocated": torch.cuda.max_memory_allocated(), "max_reserved": torch.cuda.max_memory_reserved()}
    print("REF " + json.dumps(out | memory), flush=True)


def main() -> None:
    """One rank."""
    iterations, *sizes = sys.argv[1:]
    os.environ["LOCAL_RANK"] = str(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    sys.argv = [str(JOB), *sizes]
    text = JOB.read_text()
    assert text.count(STEPS) == 1, "the job's loop has changed"
    assert text.count(END) == 1, "the job's end has changed"
    assert text.count(BATCH) == 1, "the job's micro-batches have changed"
    text = text.replace(STEPS, f"opt = TIMED(opt); LOSSES = []\nfor step in range({iterations}):")
    text = text.replace("    ok, gn, _ = opt.step()", "    ok, gn, _ = opt.step(); LOSSES.append(float(gn))")
    text = text.replace(BATCH, ON_DEVICE)
    text = text.replace(END, f"REPORT(opt, LOSSES); {END}")
    exec(compile(text, str(JOB), "exec"), {"__name__": "__main__", "TIMED": Timed, "REPORT": report})


if __name__ == "__main__":
    main()
