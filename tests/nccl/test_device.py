"""The device engine's parties on a CPU: the kernels' source, a thread for each CTA, held to a ring of N real ranks.

On a GPU the built library is held to the same (`on_device check`), by test_on_device.py.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.gpu_engine import HARNESS, PLANS

SOURCES = Path(__file__).parents[2] / "ext" / "nccl"
COMPILER = shutil.which("c++") or shutil.which("g++")
FLAGS = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread"]

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler here")


def build(folder: Path, *flags: str) -> Path:
    """The test program, of one translation unit."""
    assert COMPILER is not None
    program = folder / "tests"
    files = [
        *(SOURCES / f"{name}.cpp" for name in PLANS),
        *(SOURCES / "tests" / f"{name}.cpp" for name in HARNESS),
        *sorted((SOURCES / "cuda" / "tests").glob("*.cpp")),
    ]
    everything = "".join(f'#include "{file}"\n' for file in files)
    command = [COMPILER, *FLAGS, *flags, "-x", "c++", "-", "-o", str(program)]
    built = subprocess.run(command, input=everything, capture_output=True, text=True, check=False)
    if "cannot find -l" in built.stderr:
        pytest.skip(f"this compiler lacks {' '.join(flags)}")
    assert built.returncode == 0, built.stderr
    return program


def test_parties_on_threads(tmp_path: Path) -> None:
    done = subprocess.run([build(tmp_path)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_parties_with_address_and_undefined_behaviour_sanitizers(tmp_path: Path) -> None:
    program = build(tmp_path, "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
