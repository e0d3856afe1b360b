"""Mixed precision for CUDA, done by the CPU's autocast, whose lists of operations differ a little from CUDA's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def install() -> None:
    """Let what is said of CUDA's autocast hold for the CPU's."""
    torch.set_autocast_dtype("cpu", torch.float16)  # CUDA's default; all tensors are CUDA's
    for name in ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype"):
        setattr(torch, name, _of_the_cpu(getattr(torch, name)))
    given: Any = torch
    given.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("cpu")
    given.set_autocast_gpu_dtype = lambda dtype: torch.set_autocast_dtype("cpu", dtype)
    _install_context()


def _of_the_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the CPU in the place of CUDA, which is also the one meant where no device is named."""

    @functools.wraps(function)
    def ask(*args: Any) -> Any:
        named, rest = (args[0], args[1:]) if args and isinstance(args[0], str) else ("cuda", args)
        return function("cpu" if named == "cuda" else named, *rest)

    return ask


def _install_context() -> None:
    context: Any = torch.autocast
    begin = context.__init__

    @functools.wraps(begin)
    def initialize(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    context.__init__ = initialize
