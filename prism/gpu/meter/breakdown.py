"""What a rank's peak of memory was made of, without a change to its program.

Each optimizer shows, when it has stepped, its parameters, their gradients and its state; the allocator is told which
blocks these are, and knows of each whether it was there at the peak. What was there, is none of these, and is gone by
the end of the iteration counts as activations; what stays as other.
"""

from __future__ import annotations

import gc
import time
import traceback
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from prism.core.events import PeakBreakdown
from prism.gpu.meter.memory import Label, MemoryMeter
from prism.gpu.rank.link import Link


class Breakdown:
    """Watches all optimizers of the process from its creation on."""

    def __init__(self, link: Link, meter: MemoryMeter) -> None:
        self.found: PeakBreakdown | None = None
        self._link = link
        self._meter = meter
        self._settled = 0  # the peak that `found` is of
        self._stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        register_optimizer_step_post_hook(self._after_step)

    def settle(self) -> None:
        """An iteration, or the program, has ended: if the peak is a new one, find what it was made of."""
        parts, peak = self._meter.peak_parts(), self._meter.peak_bytes
        if parts is None or peak is None or not self._stepped or peak == self._settled:
            return
        self._settled = peak
        self.found = PeakBreakdown(
            parameters=parts.parameters,
            gradients=parts.gradients,
            optimizer=parts.optimizer,
            activations=parts.returned,
            other=max(0, peak - sum(parts)),
        )

    def fail(self, error: BaseException) -> None:
        """The program has raised: its iteration ends here; out of memory, what only its frames hold is given back."""
        for optimizer in self._stepped:  # there may be gradients since it stepped
            self._label(optimizer)
        models: list[Any] = []
        if isinstance(error, torch.OutOfMemoryError):
            models += (thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module))
            traceback.clear_frames(error.__traceback__)
        self.settle()
        models.clear()  # they were to outlive the frames: what they hold is no activation

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        start = time.monotonic_ns()
        self._label(optimizer)
        self._stepped.add(optimizer)
        self._link.excuse(time.monotonic_ns() - start)

    def _label(self, optimizer: Optimizer) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._meter.label(_plain(parameters), Label.PARAMETER)
        self._meter.label(_plain(p.grad for p in parameters), Label.GRADIENT)
        self._meter.label(_plain(_leaves(optimizer.state)), Label.OPTIMIZER)


def _plain(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among the values that have bytes of their own: of a sharded one, the local part."""
    return [tensor for value in values for tensor in _inner(value)]


def _leaves(state: dict[Any, Any]) -> Iterator[Any]:
    """What an optimizer keeps; mostly a dictionary of tensors and numbers for each parameter."""
    for kept in state.values():
        for value in kept.values() if type(kept) is dict else (kept,):
            if isinstance(value, torch.Tensor):
                yield value
            else:
                yield from tree_leaves(value)


def _inner(value: Any) -> Iterator[torch.Tensor]:
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        yield value
    elif is_traceable_wrapper_subclass(value):
        for name in value.__tensor_flatten__()[0]:
            yield from _inner(getattr(value, name))
    elif isinstance(value, torch.Tensor):
        yield value
