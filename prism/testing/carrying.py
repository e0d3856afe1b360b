"""Taking a function to the ranks, whatever it refers to: its code travels, since ranks could not import a test."""

from __future__ import annotations

import contextlib
import inspect
import io
import marshal
import sys
import sysconfig
from collections import ChainMap
from types import CodeType, ModuleType
from typing import Any, ClassVar

import cloudpickle

from prism.testing.rank import Call


def _code(code: CodeType) -> tuple[Any, ...]:
    """Code as it is: cloudpickle's own way forgets which file it is from, which is what a diagnosis tells."""
    return marshal.loads, (marshal.dumps(code),)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _code}, cloudpickle.Pickler.dispatch_table)


def carried(call: Call) -> bytes:
    """The call, with the code of the test's own module in it, which the ranks could not import."""
    module = sys.modules.get(call.function.__module__)
    ours = module is not None and not _installed(module)
    if ours:
        cloudpickle.register_pickle_by_value(module)
    try:
        stream = io.BytesIO()
        _Pickler(stream).dump(tuple(call))
        return stream.getvalue()
    except Exception as error:
        __tracebackhide__ = True
        name = getattr(call.function, "__name__", "the function")
        because = _culprit(call) or f"{type(error).__name__}: {error}"
        raise TypeError(f"{name} cannot go to the ranks: {because}") from None
    finally:
        if ours:
            cloudpickle.unregister_pickle_by_value(module)


def _culprit(call: Call) -> str | None:
    """The first thing that the function has from around it, or as an argument, which does not travel."""
    given = {f"argument {number}": value for number, value in enumerate(call.args)} | call.kwargs
    with contextlib.suppress(TypeError, ValueError):  # no function of Python's, or a name that has no value yet
        around = inspect.getclosurevars(call.function)
        given |= {**around.globals, **around.nonlocals}
    for name, value in given.items():
        try:
            cloudpickle.dumps(value)
        except Exception as error:
            return f"it has {name}, a {type(value).__name__}, from outside ({error}); make it inside the function"
    return None


def _installed(module: ModuleType) -> bool:
    """Whether the ranks find the module where it was installed."""
    file = getattr(module, "__file__", None) or ""
    return not file or any(file.startswith(place) for place in sysconfig.get_paths().values())
