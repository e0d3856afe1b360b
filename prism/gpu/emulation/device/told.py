"""An operation that torch's NCCL group carries out: what the rank tells of it, beside the work object of C++."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prism.gpu.emulation.device.link import DeviceLink


class Told:
    """One operation, or several behind one work object, by their handles."""

    def __init__(self, link: DeviceLink, *handles: int) -> None:
        self.handles = list(handles)
        self.at_once = False  # whether the program waits for it where it posts it, and gets no work object
        self._link = link

    def begun(self) -> None:
        """NCCL has it: the program goes on."""
        if self.at_once:
            self.wait()
        self._link.resume()

    def wait(self) -> None:
        """The program waits, which NCCL sees to next."""
        self._link.wait(tuple(self.handles))

    def go_on(self) -> None:
        """The program goes on from its wait."""
        self._link.resume()

    def wait_for_future(self) -> None:
        """Torch waits for the future at the end of a backward pass."""
        self._link.wait(tuple(self.handles))
        self._link.resume()
