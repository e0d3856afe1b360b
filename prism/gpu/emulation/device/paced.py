"""The line of a sandbox rank on a GPU that is timed beside the communication that it would have.

NCCL's calls are the real ones, and hold the host for what they take; so nothing is made up for at the steps, as it is
for a rank that is answered at once (prism.gpu.cuda.compensated). What PRISM adds to a call is no part of a segment
either, but the host loses it of its lead.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from prism.core.calls import Call
from prism.core.events import Timed
from prism.core.record import PostStep
from prism.core.stage.keeping import REDUCTIONS
from prism.core.stage.kept import Kept
from prism.gpu.cuda import nvml
from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.timing import Timing
from prism.gpu.cuda.watch import ClockWatch
from prism.gpu.emulation.device.link import Accepted, DeviceLink
from prism.gpu.emulation.device.recorded import Recorded
from prism.gpu.rank.pending import Pending

STEERING = Kept(payloads="control")
"""Results that can steer a program. Virtual ranks put zeros into sums, so others are not the recorded ones."""


class PacedLink(DeviceLink):
    """A DeviceLink that also tells what its device took between two things that it tells."""

    def __init__(self, *arguments: Any, driver: Driver | None = None) -> None:
        super().__init__(*arguments, driver=driver)
        self._timing = Timing(self.driver, self._told, self.own_stream)
        self._recorded = Recorded(self.driver)
        self._watch: ClockWatch | None = None
        self._inside = False  # whether the program is in a call of which something was told

    def begin(self) -> None:
        """Start together with the other sandbox ranks."""
        self._watch = ClockWatch((nvml.visible(os.environ) or [-1])[0])
        super().begin()

    def arrive(self) -> None:
        """The program has called."""
        super().arrive()
        if self.is_program():
            self._timing.call()

    def resume(self) -> None:
        """What follows is the program's own time again."""
        super().resume()
        if self.is_program():
            self._inside = False
            self._timing.resume()

    def post(self, group: str, call: Call, payload: Any, pending: Pending, compute: int, batch: int = 0) -> int:
        """Post an operation of the host; returns its handle at once."""
        self._step()
        return super().post(group, call, payload, pending, compute, batch)

    def post_on_device(self, group: str, call: Call, compute: int, batch: int, pending: Pending) -> Accepted:
        """Tell of an operation of the device."""
        self._step()
        self._recorded.prepare()
        return super().post_on_device(group, call, compute, batch, pending)

    def _wait(self, handles: tuple[int, ...], pending: Sequence[Pending]) -> None:
        self._step()
        super()._wait(handles, pending)

    def recorded_result(self, step: PostStep, outputs: Sequence[torch.Tensor]) -> Callable[[], None] | None:
        """What puts the recorded result of a reduction into its outputs, where that can steer the program."""
        if step.call.kind not in REDUCTIONS or step.result is None or not outputs:
            return None
        if not STEERING.keeps(step.call.dtype, step.result.nbytes):
            return None
        return functools.partial(self._recorded.put, step.result, self._library, outputs)

    def mark(self) -> None:
        """An iteration ends here."""
        self._step()
        self._timing.tell()
        super().mark()

    def conclude(self) -> None:
        """The program is over: tell what was timed, and how the device ran."""
        self._timing.conclude()
        if self._watch is not None and (seen := self._watch.conclude(self.rank)) is not None:
            self.tell(seen)
        super().conclude()

    def _step(self) -> None:
        """Something is told: of several in one call, as a wait in the program's stream, nothing lies between."""
        if self._inside:
            self._timing.follow()
        else:
            self._timing.step()
        self._inside = self.is_program()

    def _told(self, first: int, durations: tuple[int, ...], hosts: tuple[tuple[int, int], ...]) -> None:
        self.tell(Timed(rank=self.rank, first=first, durations=durations))
