"""A job under torch's profiler: `PROFILED_JOB` is its script, `PROFILED_OUT` where what its kernels did goes.

That is JSON, a list for each iteration that a step of an optimizer ended: name, start since the iteration's begin and
duration of each kernel, both in us, by their starts. An iteration ends where the device comes to a kernel of its own
that is launched there: the host is ahead of it, now more and now less. What comes before the first end is left out, and
what comes after so many: a profiler takes longer to tell of a kernel than a device to run it.
"""

import itertools
import json
import os
import runpy
import sys
from pathlib import Path

import torch
from torch.autograd import DeviceType
from torch.optim.optimizer import register_optimizer_step_post_hook

END = "spin_kernel"
"""What torch.cuda._sleep launches."""
job = os.environ["PROFILED_JOB"]
profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])  # of the host it would cost time
MOST = 10
"""Iterations."""
steps = 0


def note(*_: object) -> None:
    global steps
    steps += 1
    if steps == 1:
        profile.start()
    if steps <= MOST + 1:
        torch.cuda._sleep(1)
    if steps == MOST + 1:
        torch.cuda.synchronize()
        profile.stop()


sys.path.insert(0, str(Path(job).parent))
register_optimizer_step_post_hook(note)
try:
    runpy.run_path(job, run_name="__main__")
finally:
    if 0 < steps <= MOST:
        torch.cuda.synchronize()
        profile.stop()

assert profile.profiler is not None
told = profile.profiler.kineto_results.events()  # what torch makes of them takes long
own = torch.cuda.current_device()  # the virtual ranks' kernels may be on another one
kernels = sorted(
    (event.start_ns() / 1e3, event.end_ns() / 1e3, event.name())
    for event in told
    if event.device_type() == DeviceType.CUDA and event.device_index() == own
)
ends = [stop for _, stop, name in kernels if END in name]
iterations = [
    [(name, start - begin, stop - start) for start, stop, name in kernels if begin <= start < end and END not in name]
    for begin, end in itertools.pairwise(ends)
]
if os.environ.get("RANK", "0") == "0":
    out = Path(os.environ["PROFILED_OUT"])
    whole = out.with_suffix(".part")
    whole.write_text(json.dumps(iterations))
    whole.rename(out)  # who finds it finds all of it
