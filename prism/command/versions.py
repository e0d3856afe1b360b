"""What a report of a bug should say of the machine and of what is installed on it."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import runpy
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from prism import __version__

EXTENSIONS = ("allocator", "backend", "fold", "pruned", "spill", "residency", "device")  # device: where nvcc is
FRAMEWORKS = ("numpy", "transformers", "accelerate", "lightning", "deepspeed", "megatron-core")
DRIVER = Path("/proc/driver/nvidia")


def versions() -> Iterator[str]:
    """Lines for a person; torch is not imported for them."""
    yield f"prism {__version__}, Python {sys.version.split()[0]}, torch {_installed('torch') or 'not installed'}"
    yield f"CUDA {_built_for() or 'none (torch is built for the CPU)'}, NCCL {_nccl() or 'none'}, driver {_driver()}"
    yield f"GPUs: {', '.join(_gpus()) or 'none'}"
    yield f"{_system()}, {platform.machine()}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores"
    missing = [name for name in EXTENSIONS if importlib.util.find_spec(f"prism.gpu._{name}") is None]
    yield f"extensions: {'all built' if not missing else 'not built: ' + ', '.join(missing)}"
    found = [f"{name} {number}" for name in FRAMEWORKS if (number := _installed(name))]
    yield f"with {', '.join(found)}"


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _built_for() -> str | None:
    """The CUDA that torch is built for."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return None
    told = runpy.run_path(str(Path(found.origin).with_name("version.py")))
    return told.get("cuda")


def _nccl() -> str | None:
    numbers = (_installed(f"nvidia-nccl-cu{cuda}") for cuda in (13, 12))
    return next((number for number in numbers if number), None)


def _driver() -> str:
    """The NVIDIA driver that is loaded."""
    try:
        found = re.search(r"\d+\.\d+(\.\d+)?", (DRIVER / "version").read_text())
    except OSError:
        return "none"
    return found[0] if found else "of an unknown version"


def _gpus() -> Iterator[str]:
    for path in sorted(DRIVER.glob("gpus/*/information")):
        found = re.search(r"^Model:\s*(.+)$", path.read_text(errors="replace"), re.MULTILINE)
        yield found[1].strip() if found else "unknown"


def _system() -> str:
    """The distribution and the kernel."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return f"{name}, kernel {platform.release()}, {' '.join(platform.libc_ver()).strip() or 'unknown libc'}"
