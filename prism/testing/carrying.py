"""Taking a function to the ranks, whatever it refers to: its code travels, since ranks could not import a test."""

from __future__ import annotations

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
        name = getattr(call.function, "__name__", "the function")
        raise TypeError(f"{name} cannot go to the ranks: {type(error).__name__}: {error}") from error
    finally:
        if ours:
            cloudpickle.unregister_pickle_by_value(module)


def _installed(module: ModuleType) -> bool:
    """Whether the ranks find the module where it was installed."""
    file = getattr(module, "__file__", None) or ""
    return not file or any(file.startswith(place) for place in sysconfig.get_paths().values())
