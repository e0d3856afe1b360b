"""What the process of a sandbox rank on a GPU does before its program."""

from __future__ import annotations

import os
from pathlib import Path

from prism.gpu.cuda import nvml
from prism.gpu.cuda.life import wrap_synchronise
from prism.gpu.cuda.meter import CudaMeter
from prism.gpu.emulation.device.link import DeviceLink
from prism.gpu.emulation.device.nccl import prepare_environment
from prism.gpu.rank.link import Link
from prism.net.messages import Setup


def prepare(setup: Setup, link: Link) -> CudaMeter:
    """Make ready; returns the meter. A snapshot of memory goes beside the logs, if there is one."""
    assert setup.emulation is not None
    assert isinstance(link, DeviceLink), "sandbox ranks on a GPU have its link"
    wrap_synchronise(link.settle)
    prepare_environment(link.rank, shared=nvml.sharing(len(setup.emulation.sandbox), os.environ) > 1)
    return CudaMeter(Path(setup.logs) / f"{link.rank}.emulate.memory.pickle")
