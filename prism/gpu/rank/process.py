"""The life of one rank process, from the fork to its exit."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import torch

from prism.core.events import Finished, Noticed, Raised
from prism.gpu.group.folded import make_groups_alone
from prism.gpu.group.substitution import substitute
from prism.gpu.meter.breakdown import Breakdown
from prism.gpu.meter.memory import MemoryMeter
from prism.gpu.processes.birth import Birth, Introduction
from prism.gpu.processes.host_memory import HostMemory
from prism.gpu.processes.output import flush, redirect
from prism.gpu.rank.callsite import site_of_error, site_of_frames
from prism.gpu.rank.cores import cores
from prism.gpu.rank.faults import Faults
from prism.gpu.rank.laps import Laps
from prism.gpu.rank.line import connect
from prism.gpu.rank.link import Link
from prism.gpu.rank.main_module import Ending, find_modules, run_as_main
from prism.gpu.rank.marks import watch
from prism.net.messages import Setup


def live(birth: Birth) -> NoReturn:
    """Run the program as the rank; never returns."""
    setup, program = birth.setup, birth.setup.program
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator hears it and ends the run in order
    name = f"{birth.rank}.log" if setup.stage == "capture" else f"{birth.rank}.{setup.stage}.log"
    redirect(Path(setup.logs) / name)
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
    life = _Life(birth, link, meter, Breakdown(link, meter))
    try:
        find_modules(program.script)
        watch(program.marker, life.mark, life.notice, program.script, program.module)
        if setup.memory:
            meter.limit(setup.memory)
        sys.argv = [program.script or program.module, *program.args]
        life.begin()
        ending = run_as_main(program.script, program.module)
    except BaseException as error:
        life.fail(error)
    life.end(ending)


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


class _Life:
    """How far the rank's program has come, and how it ends."""

    def __init__(self, birth: Birth, link: Link, meter: Any, breakdown: Breakdown) -> None:
        self._birth = birth
        self._link = link
        self._meter = meter
        self._breakdown = breakdown
        self._faults = Faults(birth.setup.faults, link)
        self._iterations = 0
        self._before = cores()

    def begin(self) -> None:
        """The program, and with it iteration 0, begins."""
        self._faults.begin(0)
        self._link.begin()
        self._before = cores()

    def mark(self) -> None:
        """An iteration has ended; if it was the last one to capture, so has the rank."""
        if self._link.forked:
            return
        self._link.mark()
        self._iterations += 1
        self._breakdown.settle()
        if self._iterations == self._birth.setup.iterations:
            self.end(Ending(), cut=True)
        self._faults.begin(self._iterations)

    def notice(self, kind: str, summary: str) -> None:
        """Something passes here and may mislead."""
        if self._link.forked:
            return
        self._link.tell(Noticed(rank=self._birth.rank, kind=kind, summary=summary))

    def end(self, ending: Ending, cut: bool = False) -> NoReturn:
        """The program is over: say so, stay while there may be sums to do, and exit."""
        if self._link.forked:
            self.exit(ending.code)
        flush()
        self._breakdown.settle()
        for summary in [] if cut else self._faults.missed(self._iterations):
            self.notice("fault_not_reached", summary)
        self._link.conclude()
        self._note_memory()
        had = cores().since(self._before)
        self._link.tell(
            Finished(
                rank=self._birth.rank,
                code=ending.code,
                cut=cut,
                said=_legible(ending.said),
                site=ending.site,
                ran=had.ran,
                queued=had.queued,
                peak_bytes=self._meter.peak_bytes,
                peak_breakdown=self._breakdown.found,
                reserved_bytes=self._meter.reserved_bytes,
            )
        )
        self._link.until_leave()
        self.exit(ending.code)

    def fail(self, error: BaseException) -> NoReturn:
        """The program has raised: say so, and what memory it held, and exit."""
        text = _legible("".join(traceback.format_exception(error.with_traceback(_of_the_program(error.__traceback__)))))
        with contextlib.suppress(OSError, ValueError):  # the program may have closed it
            sys.stderr.write(text)
        if self._link.forked:
            self.exit(1)
        name = type(error).__name__
        if type(error).__module__ not in ("builtins", "__main__"):
            name = f"{type(error).__module__}.{name}"
        short = _out_of_memory(error)
        self._note_memory()
        snapshot = self._meter.snapshot() if short is not None else ""
        site = site_of_error(error)
        self._breakdown.fail(error)
        said = _said(error)
        after = f" (after {type(short).__name__}: {short})" if short is not None and short is not error else ""
        self._link.tell(
            Raised(
                rank=self._birth.rank,
                error=(f"{name}: {said}" if said else name) + after,
                traceback=text,
                site=site,
                peak_bytes=self._meter.peak_bytes,
                peak_breakdown=self._breakdown.found,
                reserved_bytes=self._meter.reserved_bytes,
                snapshot=snapshot,
            )
        )
        self.exit(1)

    def _note_memory(self) -> None:
        if self._link.laps is not None:
            self._link.laps.save()

    def exit(self, code: int) -> NoReturn:
        """Leave at once: threads that still wait must not hold the process."""
        flush()
        os._exit(code)


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


def _out_of_memory(error: BaseException | None) -> BaseException | None:
    """That memory ran out, if an error is that or comes of it: frameworks wrap it into errors of their own."""
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = error.__cause__ or error.__context__
    return error


def _said(error: BaseException) -> str:
    """What an exception says; one that cannot say it is as Python shows it in a traceback."""
    try:
        return _legible(str(error))
    except Exception:
        return "<exception str() failed>"


def _legible(text: str) -> str:
    """The text with what no message and no file can hold, lone surrogates, written out."""
    return text.encode(errors="backslashreplace").decode()


def _of_the_program(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first frame on: how it was started says nothing."""
    started = frames
    while started is not None and not site_of_frames([(started.tb_frame.f_code.co_filename, 0)]):
        started = started.tb_next
    return started or frames
