"""What an operation of a device asks of its rank's line."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from prism.core.calls import Ref
from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.stager import Input
from prism.gpu.rank.link import Link


class DeviceLink(Link):
    """A Link over which inputs come from a device, and results go there."""

    driver: Driver

    @abstractmethod
    def bring(self, due: Input, handle: int) -> None:
        """Let the input of a posted operation be brought."""

    @abstractmethod
    def fill(
        self, result: Ref, blocks: Sequence[int], into: Sequence[torch.Tensor], room: Sequence[int], stream: Any
    ) -> None:
        """Let tensors be filled with a result on a stream."""

    @abstractmethod
    def read(self, result: Ref | None, at: int, into: memoryview) -> None:
        """Fill memory with the bytes of a result from one on, and with zeros where it has none."""

    @abstractmethod
    def note(self, handle: int) -> None:
        """An operation of the device has been posted."""

    @abstractmethod
    def forget(self, handle: int) -> None:
        """The program has waited for it."""

    @abstractmethod
    def passed(self) -> None:
        """The program's stream goes on from a wait here."""
