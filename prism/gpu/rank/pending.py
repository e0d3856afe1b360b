"""An operation that was posted and has no result yet, as the link sees it."""

from __future__ import annotations

from typing import Protocol

import torch

from prism.core.calls import Ref


class Pending(Protocol):
    """What the link needs of an operation; its result fills `outputs`."""

    outputs: list[torch.Tensor]
    staged: bool  # whether its input is there when it is posted; else the rank tells when it is
    settled: bool  # whether its result is made up as it is posted, and none is awaited

    @property
    def watched(self) -> bool:
        """Whether others than who waits for it may hear when it is done, by callbacks."""

    def deliver(self, result: Ref | None, blocks: tuple[int, ...], source: int) -> None:
        """Copy the result, which a message's sender `source` sent, and complete the future."""

    def synthesise(self, source: int) -> None:
        """Make up a result that nobody has kept, and complete the future."""

    def done(self) -> bool:
        """Whether the result is there."""

    def join(self) -> None:
        """Return when the result is there; raises what the operation failed with."""
