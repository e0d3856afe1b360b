"""Running a program as `__main__`, as Python would have."""

from __future__ import annotations

import atexit
import os
import runpy
import sys
import threading
from pathlib import Path

from prism.gpu.rank.callsite import set_base


def find_modules(script: str) -> None:
    """Let modules be found where Python would look for them: beside the script, or where the command was started."""
    directory = str(Path(script).parent) if script else os.getcwd()
    set_base(directory)
    sys.path.insert(0, directory)


def run_as_main(script: str, module: str) -> int:
    """The program as `__main__`; its exit code."""
    try:
        if script:
            runpy.run_path(script, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        return _exit_code(error)
    _run_exit_handlers()
    return 0


def _exit_code(error: SystemExit) -> int:
    _run_exit_handlers()
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _run_exit_handlers() -> None:
    """What an interpreter does at its end, before the process is gone: threads that are no daemons, then atexit."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
