"""One rank process, from the fork on: what its program finds there, and whom it talks to; how it ends: life.py."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch

from prism.gpu.group.folded import make_groups_alone
from prism.gpu.group.substitution import substitute
from prism.gpu.meter.breakdown import Breakdown
from prism.gpu.meter.memory import MemoryMeter
from prism.gpu.processes.birth import Birth, Introduction
from prism.gpu.processes.host_memory import HostMemory
from prism.gpu.processes.output import redirect
from prism.gpu.rank.laps import Laps
from prism.gpu.rank.life import Life
from prism.gpu.rank.line import connect
from prism.gpu.rank.link import Link
from prism.gpu.rank.main_module import find_modules, run_as_main
from prism.gpu.rank.marks import watch
from prism.net.messages import Setup


def live(birth: Birth) -> NoReturn:
    """Run the program as the rank; never returns."""
    setup, program = birth.setup, birth.setup.program
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator hears it and ends the run in order
    name = f"{birth.rank}.log" if setup.stage == "capture" else f"{birth.rank}.{setup.stage}.log"
    redirect(Path(setup.logs) / name)
    _keep_up(setup.changed)
    os.environ.update(environment(birth))
    line = connect(Path(birth.socket))
    link = _link(birth, line)
    link.tell(Introduction(rank=birth.rank, pid=os.getpid()))
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    random.seed(birth.rank)  # as different from rank to rank as fresh processes are, and the same in every run
    meter = _meter(birth, link)
    _take_the_place(birth, link)
    if setup.stage == "capture":
        link.laps = Laps(birth.rank, Path(setup.logs), meter)
    life = Life(birth, link, meter, Breakdown(link, meter))
    try:
        find_modules(program.script)
        with contextlib.suppress(OSError):  # another host need not have it
            os.chdir(setup.folder)
        watch(program.marker, life.mark, life.notice, program.script, program.module)
        if setup.memory:
            meter.limit(setup.memory)
        sys.argv = [program.script or program.module, *program.args]
        life.begin()
        ending = run_as_main(program.script, program.module)
    except BaseException as error:
        life.fail(error)
    life.end(ending)


def _keep_up(changed: Mapping[bytes, bytes | None]) -> None:
    """Do to the environment what was done to the coordinator's since the worker, and so the fork server, began."""
    for name, value in changed.items():
        if value is None:
            os.environb.pop(name, None)
        else:
            os.environb[name] = value


def _take_the_place(birth: Birth, link: Link) -> None:
    """Let torch take the link for its backend, and what is there for the devices that the program wants."""
    setup = birth.setup
    if setup.present_as:
        from prism.gpu.presented import present  # not in every rank: it loads what torch loads lazily

        present(setup.present_as, setup.memory)
    device = "cuda" if setup.present_as else setup.device
    substitute(link, setup.world_size, setup.semantics, device, presented=bool(setup.present_as))
    if setup.folded:
        make_groups_alone(link, names=birth.rank == setup.names_groups)
    link.compares = birth.rank in setup.compared


def _link(birth: Birth, line: socket.socket) -> Link:
    """The rank's link: to the coordinator, or in an emulation to the pruned engine."""
    setup = birth.setup
    if setup.emulation is None:
        scratch, record = Path(setup.scratch), Path(setup.payloads)
        captured = setup.world_size if setup.stage == "capture" else 0
        bounded = bool(setup.host_memory) and setup.device == "cpu"  # on a GPU that is for copies of its memory
        memory = HostMemory(birth.rank, captured, bounded, setup.spill if bounded else "")
        return _kind_of_link(setup)(birth.rank, line, scratch, record, birth.stage, setup.answered, setup.kept, memory)
    if setup.device == "cuda":
        from prism.gpu.emulation.device.entry import device_link

        return device_link(birth, line)
    from prism.gpu.emulation.sandbox import sandbox_link  # needs the pruned engine, which is not built everywhere

    return sandbox_link(birth, line)


def _kind_of_link(setup: Setup) -> type[Link]:
    if setup.device == "cpu":
        return Link
    from prism.gpu.cuda.link import CudaLink  # not in every rank: most need none of it

    return CudaLink


def _meter(birth: Birth, link: Link) -> Any:
    """What counts the rank's memory, on a CPU or on a GPU."""
    if birth.setup.device == "cpu":
        return MemoryMeter()
    if birth.setup.emulation is None:
        from prism.gpu.cuda.life import prepare
    else:
        from prism.gpu.emulation.device.life import prepare
    return prepare(birth.setup, link)


def environment(birth: Birth) -> dict[str, str]:
    """What torchrun would set for the rank, and the scenario's own variables on top."""
    setup, rank = birth.setup, birth.rank
    per_node = min(setup.ranks_per_node, setup.world_size)
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % per_node),
        "GROUP_RANK": str(rank // per_node),
        "WORLD_SIZE": str(setup.world_size),
        "LOCAL_WORLD_SIZE": str(min(per_node, setup.world_size - rank // per_node * per_node)),
        "GROUP_WORLD_SIZE": str(-(-setup.world_size // per_node)),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(setup.world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "prism",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "OMP_NUM_THREADS": "1",
        **({"CUDA_VISIBLE_DEVICES": ""} if setup.device == "cpu" else {}),  # a GPU of the host is not to be found
        **setup.program.env,
    }
