"""A job under torch's profiler: `PROFILED_JOB` is its script, `PROFILED_OUT` where what its kernels did goes.

That is JSON, a list for each iteration that a step of an optimizer ended: name, start since the iteration's begin and
duration of each kernel, both in us, by their starts.
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

END = "iteration ends"
job = os.environ["PROFILED_JOB"]


def note(*_: object) -> None:
    with torch.profiler.record_function(END):
        pass


sys.path.insert(0, str(Path(job).parent))
register_optimizer_step_post_hook(note)
activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
with torch.profiler.profile(activities=activities) as profile:
    try:
        runpy.run_path(job, run_name="__main__")
    finally:
        torch.cuda.synchronize()

events = profile.events()
ends = sorted(event.time_range.end for event in events if event.name == END and event.device_type == DeviceType.CPU)
kernels = sorted(
    (event.time_range.start, event.time_range.end, event.name)
    for event in events
    if event.device_type == DeviceType.CUDA and event.name != END
)
iterations = []
for begin, end in itertools.pairwise(ends):
    mine = [one for one in kernels if begin <= one[0] < end]
    first = mine[0][0] if mine else 0
    iterations.append([(name, start - first, stop - start) for start, stop, name in mine])
if os.environ.get("RANK", "0") == "0":
    Path(os.environ["PROFILED_OUT"]).write_text(json.dumps(iterations))
