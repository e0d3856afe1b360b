"""Test programs in C++: built of one translation unit, and run.

One unit that includes all sources compiles in a fraction of the time that they take one by one.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "ext" / "nccl"
COMPILER = shutil.which("c++") or shutil.which("g++")
FLAGS = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread"]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler here")


def build(files: Iterable[Path], folder: Path, *flags: str) -> Path:
    """The program, built with these flags; skips where the compiler lacks them."""
    assert COMPILER is not None
    program = folder / "tests"
    everything = "".join(f'#include "{file}"\n' for file in files)
    command = [COMPILER, *FLAGS, *flags, "-x", "c++", "-", "-o", str(program)]
    built = subprocess.run(command, input=everything, capture_output=True, text=True, check=False)
    if "cannot find -l" in built.stderr or "unrecognized" in built.stderr:
        pytest.skip(f"this compiler lacks {' '.join(flags)}")
    assert built.returncode == 0, built.stderr
    return program


def run(program: Path, *groups: str) -> None:
    """Run these groups of tests, all if none is named."""
    done = subprocess.run([program, *groups], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
