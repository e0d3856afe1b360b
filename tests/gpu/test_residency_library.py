"""The library that pages device memory, over a fake CUDA: its own test program, plainly and under sanitizers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "ext" / "cuda"
COMPILER = shutil.which("c++") or shutil.which("g++")
FLAGS = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler here")


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory, as host pools lie in one."""
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        yield Path(folder)


def compiled(folder: Path, output: str, *arguments: str, text: str = "") -> Path:
    """What the compiler makes of this, and of `text` where an argument is "-", in `folder`."""
    assert COMPILER is not None
    command = [COMPILER, *FLAGS, *arguments, "-o", output]
    built = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=folder)
    if "cannot find -l" in built.stderr or "unrecognized" in built.stderr:
        pytest.skip(f"this compiler lacks {' '.join(arguments)}")
    assert built.returncode == 0, built.stderr
    return folder / output


def program(folder: Path, *flags: str) -> Path:
    """The test program, whose driver and runtime are fakes: the library finds them by the names of the real ones."""
    fake = SOURCES / "tests"
    shared = ["-fPIC", "-shared", "-Wno-unused-parameter"]
    compiled(folder, "libcuda.so.1", *shared, f"{fake}/fake_cuda.cpp", "-Wl,-soname,libcuda.so.1")
    compiled(
        folder, "libcudart.so.13", *shared, f"{fake}/fake_cudart.cpp", "-Wl,-soname,libcudart.so.13",
        "-L.", "-l:libcuda.so.1",
    )  # fmt: skip
    files = [*sorted(SOURCES.glob("*.cpp")), *sorted(fake.glob("test_*.cpp")), fake / "main.cpp"]
    everything = "".join(f'#include "{file}"\n' for file in files)
    linked = ["-L.", "-Wl,--no-as-needed", "-l:libcudart.so.13", "-l:libcuda.so.1", f"-Wl,-rpath,{folder}", "-ldl"]
    return compiled(folder, "tests", *flags, "-x", "c++", "-", "-x", "none", *linked, text=everything)


SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


@pytest.mark.parametrize("flags", [pytest.param((), marks=pytest.mark.slow), SANITIZED])
def test_the_library(flags: tuple[str, ...], tmp_path: Path, memory: Path) -> None:
    run = program(tmp_path, *flags)
    done = subprocess.run([run, memory, tmp_path], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
