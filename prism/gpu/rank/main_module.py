"""Running a program as `__main__`, as Python would have."""

from __future__ import annotations

import atexit
import os
import runpy
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from prism.gpu.rank.callsite import set_base, site_of_error


class Ending(NamedTuple):
    """How a program came to its end by itself: its exit code, what it gave sys.exit instead of one, and where."""

    code: int = 0
    said: str = ""
    site: str = ""


def find_modules(script: str) -> None:
    """Let modules be found where Python would look for them: beside the script, or where the command was started."""
    directory = str(Path(script).parent) if script else os.getcwd()
    set_base(directory)
    sys.path.insert(0, directory)


def name_and_file(script: str, module: str) -> tuple[str, str]:
    """Under which name what runs as `__main__` could be imported, and the file of its code.

    Of a package it is its module `__main__`. Imports the packages around it, as `-m` does; raises ImportError if there
    is no such module.
    """
    if script:
        return Path(script).stem, script
    spec = find_spec(module)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{module}.__main__")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
    return spec.name, spec.origin


def run_as_main(script: str, module: str) -> Ending:
    """The program as `__main__`; how it ended, unless it raises."""
    try:
        if script:
            runpy.run_path(script, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        return _ending(error)
    _run_exit_handlers()
    return Ending()


def _ending(error: SystemExit) -> Ending:
    _run_exit_handlers()
    if error.code is None:
        return Ending()
    if isinstance(error.code, int):
        code = error.code & 0xFF
        return Ending(code, site=site_of_error(error) if code else "")
    print(error.code, file=sys.stderr)
    return Ending(1, str(error.code), site_of_error(error))


def _run_exit_handlers() -> None:
    """What an interpreter does at its end, before the process is gone: threads that are no daemons, then atexit."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
