"""Processes that a program starts are no ranks: a group of theirs would be a real one, and wait for others for ever."""

from __future__ import annotations

import multiprocessing.process
from collections.abc import Callable
from typing import Any, NoReturn

import torch.distributed.distributed_c10d as c10d


class Child:
    """What a child process does, but for joining a process group."""

    def __init__(self, target: Callable[..., Any]) -> None:
        self._target = target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch_side: Any = c10d  # what is put there is not as torch declares it
        torch_side.rendezvous = _refuse
        return self._target(*args, **kwargs)


def watch_children() -> None:
    """From here on processes that multiprocessing starts, as torch's mp.spawn does, may make no process group."""
    process: Any = multiprocessing.process.BaseProcess
    plain = process.__init__

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        if self._target is not None:
            self._target = Child(self._target)

    process.__init__ = begin


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "a process that the program started itself is no rank and cannot join a process group; PRISM starts the ranks, "
        "as torchrun does: each runs the whole program, and finds RANK and WORLD_SIZE in its environment"
    )
