"""The line of a sandbox rank on a GPU: torch's own NCCL group carries out its operations, over the engine there.

Tensors of the host, in groups of backend gloo, are carried out as on a CPU.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from prism.core.calls import Call
from prism.core.events import Broke, Completed, Posted, Timed
from prism.core.record import PostStep
from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.two_threads import TwoThreads
from prism.gpu.cuda.unwaited import Unwaited
from prism.gpu.emulation.device import abi
from prism.gpu.emulation.device.engine import Engine
from prism.gpu.emulation.device.mark_times import MarkTimes
from prism.gpu.emulation.device.nccl import Carriers
from prism.gpu.emulation.participant import START_POLL_S
from prism.gpu.emulation.sandbox import SandboxLink
from prism.gpu.processes.output import note
from prism.gpu.pruned import GRACE_S
from prism.gpu.rank.pending import Pending
from prism.net.frames import pack

LOOK_S = 0.05
"""How often it is asked what the engine has done and how it is: a thread beside the program disturbs it."""


class Fate(enum.Enum):
    """What becomes of an operation: NCCL carries it out, nothing is moved in it, or it never ends."""

    CARRIED = enum.auto()
    EMPTY = enum.auto()
    LEFT = enum.auto()


class Accepted(NamedTuple):
    """An operation that was posted: its handle, what becomes of it, and its step in the record, if it has one."""

    handle: int
    fate: Fate
    step: PostStep | None = None


class DeviceLink(TwoThreads, Unwaited, SandboxLink):
    """A SandboxLink; `engine` and `carriers` are those of the rank's device."""

    face_on_gpu = "prism.gpu.emulation.device.face"
    engine: Engine
    carriers: Carriers

    def __init__(self, *arguments: Any, driver: Driver | None = None) -> None:
        self.driver = driver or Driver()
        self._marks = MarkTimes(self.driver)
        self._open: dict[int, int] = {}  # handle -> touching operation, of those that the device has not ended
        super().__init__(*arguments)

    def begin(self) -> None:
        """Start together with the other sandbox ranks."""
        threading.Thread(target=self._look, name="prism-device", daemon=True).start()
        super().begin()

    def post_on_device(self, group: str, call: Call, compute: int, batch: int, pending: Pending) -> Accepted:
        """Tell of an operation of the device; one that is left alone never ends, as `pending` does not."""
        site = self._site()
        with self._sending:
            self._handles += 1
            handle = self._handles
            told = Posted(
                rank=self.rank, group=group, handle=handle, call=call, site=site, compute=compute, batch=batch,
                main=self.is_program(),
            )  # fmt: skip
            taken = self.participant.take(told)
            (self._send if taken is None else self._keep)(pack(told))
        if taken is None:
            self._pending[handle] = pending
            return Accepted(handle, Fate.LEFT)
        op, step = taken
        self.note(handle)
        entries = self.engine.plan.entries.get(op)
        if entries:
            self._open[handle] = op
        else:  # else the device shows it, when it comes to it
            self.participant.show(op)
            self.keep(Completed(rank=self.rank, handle=handle))
        return Accepted(handle, Fate.CARRIED if entries is None or entries else Fate.EMPTY, step)

    def wait(self, handles: tuple[int, ...], in_stream: bool = False) -> bool:
        """Wait for operations; returns whether that is a step of the program."""
        for handle in handles:
            self.forget(handle)
        return super().wait(handles, in_stream)

    def recorded_result(self, step: PostStep, outputs: Sequence[torch.Tensor]) -> Callable[[], None] | None:
        """What puts the result of a step into its outputs once NCCL is done; here nothing: NCCL's own counts."""
        return None

    def _may_keep(self, pending: Sequence[Pending]) -> bool:
        """Whether the device sees to all of it: saying so wakes somebody up, which would hold the program each time."""
        return not pending

    def mark(self) -> None:
        """An iteration ends here, for the device as soon as it comes to it."""
        self._marks.mark()
        super().mark()

    def conclude(self) -> None:
        """The program is over: tell when the device was at the marks."""
        if walls := self._marks.walls():
            self.tell(Timed(rank=self.rank, first=0, durations=(), walls=walls))
        super().conclude()

    def until_leave(self) -> None:
        """Return when the rank may exit: kernels that others wait for end with it."""
        super().until_leave()
        while self._open and not self.participant.all_ended():
            time.sleep(START_POLL_S)

    # -- beside the program ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        while (report := self.engine.state()) is None:
            for handle, op in list(self._open.items()):
                if self.participant.over(op):
                    self.keep(Completed(rank=self.rank, handle=handle))
                    del self._open[handle]
            if self._kept:
                self._speak()
            time.sleep(LOOK_S)
        self._failed(report)

    def _failed(self, report: abi.Report) -> None:
        """The engine cannot go on; those who know why say so better, in a moment."""
        if report.kind == abi.ABORTED:
            note(report.text.decode())
        if report.kind != abi.FAILED:
            time.sleep(GRACE_S)
        where = f" (group {report.group.decode()}, its operation {report.number})" if report.group else ""
        self.tell(Broke(rank=self.rank, reason=f"the engine on the device: {report.text.decode()}{where}"))
