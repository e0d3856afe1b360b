"""How fast the device engine is on this machine's GPU, and that it is right: the program of ext/nccl/cuda/on_device.

    python -m benchmarks.gpu_engine [--channels 0] [--arc-device -1] [--limit 120] [SECTION...]

Sections, `speed` if none is named: `speed`, all_reduces of one sandbox member among N with nothing paced, where GB/s
count what a rank sends; `check`, against rings of N real ranks, bit for bit; `pair`, two sandbox processes; `scenes`,
graphs, messages and time; `payloads`, GB/s at which payloads come from files in memory to the device, by the number of
threads that read. The first call builds the program, which takes nvcc a minute.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "ext" / "nccl"
BUILD = Path(__file__).parents[1] / "build" / "on_device"
PLANS = ("arc_plan", "arithmetic", "bell", "cut", "directory", "fifo", "mapping", "op", "pace", "ports")
HARNESS = ("harness", "naive_ring", "naive_values")
SECTIONS = ("speed", "check", "pair", "scenes", "payloads")


def compiler() -> Path | None:
    """Nvcc, if it is here."""
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    return None if found is None else Path(found)


def build(folder: Path = BUILD) -> Path:
    """The program, built for the GPU that is here; raises CalledProcessError with what the compiler said."""
    nvcc = compiler()
    if nvcc is None:
        raise SystemExit("there is no nvcc here: install the CUDA toolkit, or put it on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    device = SOURCES / "cuda"
    files = [
        *sorted(device.glob("*.cpp")),
        *sorted((device / "on_device").glob("*.cpp")),
        device / "tests" / "contributions.cpp",
        *(SOURCES / f"{name}.cpp" for name in PLANS),
        *(SOURCES / "tests" / f"{name}.cpp" for name in HARNESS),
        *sorted(device.glob("*.cu")),
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(lambda file: _compiled(nvcc, file, folder), files))
    program = folder / "on_device"
    _run([nvcc, "-arch=native", "-cudart=static", *objects, "-o", program])
    return program


def _compiled(nvcc: Path, file: Path, folder: Path) -> Path:
    target = folder / "-".join((*file.relative_to(SOURCES).parts[:-1], file.name + ".o"))
    newest = max(header.stat().st_mtime for header in [*SOURCES.rglob("*.h"), *SOURCES.rglob("*.cuh"), file])
    if not target.exists() or target.stat().st_mtime < newest:
        options = ["-std=c++20", "-O3", "-arch=native", "--expt-relaxed-constexpr", "-fmad=false"]
        _run([nvcc, *options, "-Xcompiler=-ffp-contract=off", "-c", file, "-o", target])
    return target


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        done.check_returncode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the sections; 1 if one of them finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION")
    parser.add_argument("--channels", type=int, default=0, help="CTAs of each party; 0: by the operation's size")
    parser.add_argument("--arc-device", type=int, default=-1, help="the GPU of the virtual members; -1: the same")
    parser.add_argument("--limit", type=float, default=120, help="seconds for each section")
    options = parser.parse_args(arguments)
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    program = build()
    environment = os.environ | ({"ARC_DEVICE": str(options.arc_device)} if options.arc_device >= 0 else {})
    failed = 0
    for section in options.sections or ["speed"]:
        for more in _arguments(section, options.channels):
            command = [program, section, *more]
            done = subprocess.run(command, env=environment, timeout=options.limit, check=False)
            failed |= int(done.returncode != 0)
    return failed


def _arguments(section: str, channels: int) -> list[list[str]]:
    """Of each run of the program; its checks take the mode of contribution."""
    if section == "check":
        return [[str(mode)] for mode in range(4)]
    return [[str(channels)]] if section == "speed" else [[]]


if __name__ == "__main__":
    sys.exit(main())
