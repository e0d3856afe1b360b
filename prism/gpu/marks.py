"""Finding where an iteration ends, without touching the program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from prism.errors import ScenarioError


def watch(marker: str, mark: Callable[[], None]) -> None:
    """Call `mark` at the end of each iteration.

    `optimizer`: after each step of the first torch optimizer that is stepped on this rank. `module:qualname`: after
    each call of that function. Raises ScenarioError if there is no such function.
    """
    if marker == "optimizer":
        _watch_optimizer(mark)
    else:
        _watch_function(marker, mark)


def _watch_optimizer(mark: Callable[[], None]) -> None:
    first: list[Optimizer] = []

    def stepped(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not first:
            first.append(optimizer)
        if optimizer is first[0]:
            mark()

    register_optimizer_step_post_hook(stepped)


def _watch_function(marker: str, mark: Callable[[], None]) -> None:
    module_name, _, qualname = marker.partition(":")
    try:
        holder: Any = import_module(module_name)
        *path, name = qualname.split(".")
        for part in path:
            holder = getattr(holder, part)
        function = getattr(holder, name)
    except (ImportError, AttributeError) as error:
        raise ScenarioError(f"$.iteration.marker: {marker!r} is no function ({error}); write module:qualname") from None

    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        mark()
        return result

    setattr(holder, name, marked)
