"""A job under torch's profiler: `PROFILED_JOB` is its script, `PROFILED_OUT` where what its kernels did goes.

That is JSON, a list for each iteration that a step of an optimizer ended: name, start since the iteration's begin and
duration of each kernel, both in us, by their starts. An iteration ends where the device comes to a kernel of its own
that is launched there: the host is ahead of it, now more and now less. What comes before the first end is left out.
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
begun = False


def note(*_: object) -> None:
    global begun
    if not begun:
        begun = True
        profile.start()
    torch.cuda._sleep(1)


sys.path.insert(0, str(Path(job).parent))
register_optimizer_step_post_hook(note)
try:
    runpy.run_path(job, run_name="__main__")
finally:
    torch.cuda.synchronize()
    profile.stop()

kernels = sorted(
    (event.time_range.start, event.time_range.end, event.name)
    for event in profile.events()
    if event.device_type == DeviceType.CUDA
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
