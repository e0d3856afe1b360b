"""Runs a job as it is and tells when its iterations ended: marked.py SCRIPT [ARGS...].

An iteration ends with each step of the first torch optimizer that is stepped, as it does for PRISM. At the end each
rank prints `MARKS <ns> <ns> ...`, read from the monotonic clock that all ranks of one host share.
"""

import runpy
import sys
import time
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_post_hook

stepped, marks = [], []


def mark(optimizer, args, kwargs):
    if not stepped:
        stepped.append(optimizer)
    if optimizer is stepped[0]:
        marks.append(time.monotonic_ns())


register_optimizer_step_post_hook(mark)
del sys.argv[0]
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
print("MARKS", *marks)
