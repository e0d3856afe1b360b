"""Runs a program as it is, and prints `STEP <milliseconds>` for every step of its optimizer but the first.

    stepped.py TRACE SCRIPT [ARGUMENT...]

TRACE: `-`, or a folder; then the program runs under torch's profiler, and its trace goes to <rank>.json there.
"""

import contextlib
import os
import runpy
import sys
import time
from itertools import pairwise
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile

trace, script = sys.argv[1:3]
sys.argv[:] = sys.argv[2:]
sys.path[0] = str(Path(script).parent)
ends = []
register_optimizer_step_post_hook(lambda *_: ends.append(time.perf_counter()))
with contextlib.nullcontext() if trace == "-" else profile(activities=[ProfilerActivity.CPU]) as profiler:
    runpy.run_path(script, run_name="__main__")
for before, after in pairwise(ends):
    print(f"STEP {1e3 * (after - before):.6f}")
if profiler is not None:
    profiler.export_chrome_trace(str(Path(trace) / f"{os.environ['RANK']}.json"))
