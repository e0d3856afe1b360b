"""Finding where an iteration ends, without touching the program."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from importlib import import_module
from types import FrameType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from prism.errors import ScenarioError
from prism.gpu.rank.main_module import name_and_file

UNEVEN = (
    "the first torch optimizer stepped {} times between two steps of another, and each of its steps counts as an "
    "iteration; if yours has them all, name a function that ends it, iteration.marker"
)


def watch(marker: str, mark: Callable[[], None], notice: Callable[[str, str], None], script: str, module: str) -> None:
    """Call `mark` at the end of each iteration of the program that is about to run, a script or else a module.

    `notice` hears, once, that the ends may not be those of the program: of which kind that is, and what it is.

    `optimizer`: after each step of the first torch optimizer that is stepped on this rank. `module:qualname`: after
    each call of that function; the module may be the program itself, also as `__main__`. Raises ScenarioError if
    another module has no such function.
    """
    if marker == "optimizer":
        _watch_optimizer(mark, notice)
        return
    place, _, qualname = marker.partition(":")
    name, file = name_and_file(script, module)
    if place in ("__main__", name):
        _watch_main(file, qualname, mark)
    else:
        _watch_function(marker, mark)


def _watch_optimizer(mark: Callable[[], None], notice: Callable[[str, str], None]) -> None:
    first: list[Optimizer] = []
    steps = 0
    seen: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()  # the first one's steps until each other's last
    told = False

    def stepped(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal steps, told
        if not first:
            first.append(optimizer)
        if optimizer is first[0]:
            steps += 1
            mark()
            return
        between = steps - seen.get(optimizer, steps)
        seen[optimizer] = steps
        if between > 1 and not told:
            told = True
            notice("uneven_steps", UNEVEN.format(between))

    register_optimizer_step_post_hook(stepped)


def _watch_function(marker: str, mark: Callable[[], None]) -> None:
    module_name, _, qualname = marker.partition(":")
    try:
        _wrap(import_module(module_name), qualname.split("."), mark)
    except (ImportError, AttributeError) as error:
        raise ScenarioError(f"$.iteration.marker: {marker!r} is no function ({error}); write module:qualname") from None


def _watch_main(file: str, qualname: str, mark: Callable[[], None]) -> None:
    """The program's functions are made while it runs: the end of the first call is seen by the profiler's hook.

    From there on the function is wrapped, as those of modules are. Until then each call of Python costs a little more.
    """

    def ended(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "return" or code.co_filename != file or code.co_qualname != qualname:
            return
        with contextlib.suppress(AttributeError):  # one that was given away under its name, and taken from it
            _wrap(SimpleNamespace(**frame.f_globals), qualname.split("."), mark, frame.f_globals)
            sys.setprofile(None)
        mark()

    sys.setprofile(ended)


def _wrap(holder: Any, path: list[str], mark: Callable[[], None], names: dict[str, Any] | None = None) -> None:
    """Let a function mark where each of its calls ends; `names` are those of a module that is no module yet."""
    *above, name = path
    for part in above:
        holder = getattr(holder, part)
    function = getattr(holder, name)

    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        mark()
        return result

    if names is not None and not above:
        names[name] = marked
    else:
        setattr(holder, name, marked)
