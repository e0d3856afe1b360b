"""Which device a program means, and which one its tensors claim to be on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import torch

from prism.core.devices import DeviceModel

CPU = torch.device("cpu")


class _Calls(threading.local):
    inside = False


class Placement:
    """The node's devices as one rank sees them: LOCAL_WORLD_SIZE of a model, one of them its own."""

    def __init__(self, model: DeviceModel) -> None:
        self.model = model
        self.count = int(os.environ["LOCAL_WORLD_SIZE"])
        self.current = 0
        self.device = torch.device("cuda", 0)
        """What tensors claim: the device that the program named last, for a rank has one device."""
        self._calls = _Calls()

    def index(self, device: Any = None) -> int:
        """The index of a device as CUDA's functions take one: none, an integer, a string or a torch.device."""
        if device is None:
            return self.current
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device):
            if device.type != "cuda":
                raise ValueError(f"expected a cuda device, got {device}")
            device = self.current if device.index is None else device.index
        index = int(device)
        if not 0 <= index < self.count:
            raise torch.AcceleratorError(
                f"CUDA error: invalid device ordinal {index}, this node has {self.count} devices: "
                "one for each of its ranks (world.ranks_per_node)"
            )
        return index

    def choose(self, device: Any) -> int:
        """Make the device the current one (a negative index: leave it); the index of the one before."""
        before = self.current
        if not (isinstance(device, int) and device < 0):
            self.current = self.index(device)
            self.device = torch.device("cuda", self.current)
        return before

    def actual(self, device: Any) -> Any:
        """Where a tensor for the device really goes: the CPU in the place of a GPU, else what was asked for."""
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device) and device.type != "cuda":
            return device
        index = self.index(device)
        named = not isinstance(device, torch.device) or device.index is not None
        if named and index != self.device.index:
            self.device = torch.device("cuda", index)
        return CPU

    def is_host(self, device: Any) -> bool:
        """Whether the program named the host: not torch, inside of a call whose GPU has become the CPU already."""
        if self._calls.inside or not isinstance(device, str | torch.device):
            return False
        return torch.device(device).type == "cpu"

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of torch whose devices are actual ones."""
        outer, self._calls.inside = self._calls.inside, True
        try:
            return function(*args, **kwargs)
        finally:
            self._calls.inside = outer
