"""The nccl* functions in front of the real library's: their test program over fakes; and torch finds them all."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHIM = Path(__file__).parents[2] / "ext" / "nccl" / "shim"
COMPILER = shutil.which("c++") or shutil.which("g++")
FLAGS = ["-std=c++20", "-O0", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
TORCH_2_11 = """AllGather AllReduce AlltoAll Bcast Broadcast CommAbort CommCount CommDeregister CommDestroy CommFinalize
    CommGetAsyncError CommInitAll CommInitRank CommInitRankConfig CommInitRankScalable CommRegister CommShrink CommSplit
    CommUserRank CommWindowDeregister CommWindowRegister DevCommCreate DevCommDestroy GetErrorString GetLastError
    GetUniqueId GetVersion GroupEnd GroupSimulateEnd GroupStart MemAlloc MemFree Recv RedOpCreatePreMulSum RedOpDestroy
    Reduce ReduceScatter Send"""
TORCH_2_13 = """CommMemStats CommResume CommSuspend GetLsaMultimemDevicePointer GetPeerDevicePointer PutSignal Signal
    WaitSignal"""

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler here")


def compiled(folder: Path, output: str, *arguments: str | Path) -> Path:
    assert COMPILER is not None
    done = subprocess.run([COMPILER, *FLAGS, *arguments, "-o", output], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / output


def library(folder: Path) -> Path:
    """The shim over the fake engine."""
    sources = [*sorted(SHIM.glob("*.cpp")), SHIM / "tests" / "fake_engine.cpp"]
    everything = folder / "shim.cpp"
    everything.write_text("".join(f'#include "{source}"\n' for source in sources))
    return compiled(folder, "libshim.so", "-fPIC", "-shared", "-fvisibility=hidden", everything, "-ldl")


def program(folder: Path) -> Path:
    """The test program, which finds the fake NCCL as torch finds the real one: by a path that its own file names."""
    everything = folder / "tests.cpp"
    sources = [SHIM / "tests" / "main.cpp", *sorted((SHIM / "tests").glob("test_*.cpp"))]
    everything.write_text("".join(f'#include "{source}"\n' for source in sources))
    path = f"-Wl,--no-as-needed,--disable-new-dtags,-rpath,{folder}"
    return compiled(folder, "tests", "-rdynamic", everything, path, "-L.", "-l:libnccl.so.2", "-ldl")


def fake_nccl(folder: Path, *flags: str) -> None:
    source = SHIM / "tests" / "fake_nccl.cpp"
    compiled(folder, "libnccl.so.2", "-fPIC", "-shared", *flags, source, "-Wl,-soname,libnccl.so.2")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shim")
    fake_nccl(folder)
    library(folder)
    program(folder)
    return folder


def defined(path: Path) -> set[str]:
    """The functions of NCCL's that a library has."""
    return {line.split()[-1] for line in _symbols("--defined-only", path) if " nccl" in line}


def _symbols(which: str, path: Path) -> list[str]:
    return subprocess.run(["nm", "-D", which, path], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("version", ["2.28", "2.29"])
def test_the_shim_over_fakes(version: str, built: Path) -> None:
    fake_nccl(built, *(["-DFAKE_NCCL_2_29"] if version == "2.29" else []))
    preload = {**os.environ, "LD_PRELOAD": str(built / "libshim.so")}
    done = subprocess.run(
        [built / "tests", built / "libshim.so"], env=preload, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_that_torch_needs_is_missing(built: Path) -> None:
    needed = {f"nccl{name}" for name in (TORCH_2_11 + " " + TORCH_2_13).split()}
    assert len(needed) == 46
    assert needed <= defined(built / "libshim.so")


def test_the_torch_that_is_installed_finds_all_in_it(built: Path) -> None:
    libraries = _torch() / "lib"
    if not (libraries / "libtorch_cuda.so").is_file():
        pytest.skip("this torch is built without CUDA")
    needed = set()
    for path in libraries.glob("libtorch_*.so"):
        needed |= {
            line.split()[-1] for line in _symbols("--undefined-only", path) if line.split()[-1].startswith("nccl")
        }
    assert needed
    assert needed <= defined(built / "libshim.so")


def test_the_torch_that_is_installed_loads_behind_it(built: Path) -> None:
    """All symbols are bound at once, and nobody calls the shim before a program does."""
    told = compiled(built, "libtold.so", "-fPIC", "-shared", "-x", "c++", _told(built))
    environment = {**os.environ, "LD_PRELOAD": f"{built / 'libshim.so'} {told}", "LD_BIND_NOW": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.ones(2).sum().item())"],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("2.0\n", 0), done.stderr


def _told(folder: Path) -> Path:
    """What the fakes need of a test program, without one."""
    source = folder / "told.cpp"
    source.write_text('extern "C" void test_told(const char*) {}\nextern "C" int test_result() { return 0; }\n')
    return source


def _torch() -> Path:
    found = importlib.util.find_spec("torch")
    assert found is not None
    return Path(str(found.origin)).parent
