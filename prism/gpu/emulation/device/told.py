"""An operation that torch's NCCL group carries out: what the rank tells of it, beside the work object of C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from prism.gpu.emulation.device.link import Accepted, DeviceLink


class Told:
    """One operation, or several behind one work object."""

    def __init__(self, link: DeviceLink, in_stream: bool) -> None:
        """`in_stream`: whether the current stream waits for it, and not the host."""
        self._in_stream = in_stream
        self._steps = True  # whether the wait that the program is in is a step of it
        self.at_once = False  # whether the program waits for it where it posts it, and gets no work object
        self._link = link
        self._handles: list[int] = []
        self._fills: list[Callable[[], None]] = []  # what puts recorded results into outputs

    def add(self, accepted: Accepted, outputs: Sequence[torch.Tensor]) -> Told:
        """Take in an operation that was posted; returns itself."""
        self._handles.append(accepted.handle)
        fill = self._link.recorded_result(accepted.step, outputs) if accepted.step is not None else None
        if fill is not None:
            self._fills.append(fill)
        return self

    def begun(self) -> None:
        """NCCL has it: the program goes on."""
        if self.at_once:
            self.wait()
            self._fill()
        self._link.resume()

    def wait(self) -> None:
        """The program waits, which NCCL sees to next."""
        self._steps = self._link.wait(tuple(self._handles), self._in_stream)

    def go_on(self) -> None:
        """The program goes on from its wait."""
        self._fill()
        if self._steps:
            self._link.resume()

    def wait_for_future(self) -> None:
        """Torch waits for the future at the end of a backward pass."""
        self.wait()

    def _fill(self) -> None:
        for fill in self._fills:
            fill()
        self._fills.clear()
