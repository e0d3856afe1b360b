"""The engine's own tests: a C++ program, built plainly and under sanitizers, which holds it to a ring of N real ranks.

One translation unit includes all sources: it compiles in a fraction of the time that they take one by one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "ext" / "nccl"
COMPILER = shutil.which("c++") or shutil.which("g++")
FLAGS = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread"]

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler here")


def build(folder: Path, *flags: str) -> Path:
    """The test program, built with these flags."""
    assert COMPILER is not None
    program = folder / "tests"
    files = [*sorted(SOURCES.glob("*.cpp")), *sorted((SOURCES / "tests").glob("*.cpp"))]
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


def test_plainly(tmp_path: Path) -> None:
    run(build(tmp_path))


def test_with_address_and_undefined_behaviour_sanitizers(tmp_path: Path) -> None:
    run(build(tmp_path, "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"))


def test_with_thread_sanitizer(tmp_path: Path) -> None:
    run(build(tmp_path, "-fsanitize=thread"), "fifo", "bridge", "threads")
