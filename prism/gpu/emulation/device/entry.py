"""How a sandbox rank on a GPU enters an emulation: its link, the engine of its device, and what makes its groups."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from prism.gpu.cuda import nvml
from prism.gpu.emulation.device.engine import Engine
from prism.gpu.emulation.device.link import DeviceLink
from prism.gpu.emulation.device.nccl import Carriers
from prism.gpu.emulation.device.paced import PacedLink
from prism.gpu.emulation.sandbox import take_part
from prism.gpu.processes.birth import Birth


def device_link(birth: Birth, line: socket.socket) -> DeviceLink:
    """The link of a sandbox rank on a GPU, which is timed where results come from the record."""
    setup = birth.setup
    emulation, payloads = setup.emulation, Path(setup.payloads)
    assert emulation is not None
    kind = PacedLink if emulation.recorded else DeviceLink
    link = kind(birth.rank, line, Path(setup.scratch), payloads, birth.stage, True, setup.kept)
    directory = Path(emulation.directory)
    schedule = take_part(link, birth)
    pool = emulation.pool // len(schedule.touching.sandbox)
    link.engine = Engine(
        schedule, birth.rank, directory, payloads, pool, link.driver.index, emulation.arc_device,
        nvml.sharing(len(emulation.sandbox), os.environ),
    )  # fmt: skip
    link.carriers = Carriers(link.engine, directory)
    return link
