"""What the processes of a capture hold of the host's memory, by what it is, and at most under a bound.

    python -m benchmarks.memory [--ranks 64] [--bound 4GiB] [--spill FOLDER] [--program FILE] [--args "2"]

Private is what a rank has for itself; the fork server's pages that nobody has written to are there once, and counted
once. All ranks are looked at again and again while the capture runs, one after the other; the sweep with the highest
sum counts. A table by mapping shows some of the ranks then.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "tiny_ddp.py"
REST = 4
"""How many times as long as a sweep the ranks are left alone after it."""
SAMPLED = 16
"""Of so many ranks, one is looked at mapping by mapping."""
MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ (\d+) *(.*)")
MIB = 1 << 20


@dataclass
class Peak:
    """The sweep in which most was held, in bytes; `kinds` is of `sampled` ranks."""

    ranks: int = 0
    private: int = 0
    shared: int = 0
    sampled: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


def sweep(root: int) -> Peak:
    """Look at all ranks below a process, one after the other; it takes a few milliseconds a rank."""
    fork_server = next(_fork_servers(root), 0)
    seen = Peak()
    for number, pid in enumerate(_children(fork_server)):
        try:
            private = _private(pid) + _status(pid, "VmPTE")
            kinds = _kinds(pid) if number % SAMPLED == 0 else None
        except (OSError, StopIteration):  # it has ended
            continue
        seen.ranks, seen.private = seen.ranks + 1, seen.private + private
        if kinds is not None:
            seen.sampled, seen.kinds = seen.sampled + 1, seen.kinds + kinds
    seen.shared = _resident(fork_server)
    return seen


def _private(pid: int) -> int:
    """What only this process holds; clean pages of files are none, for the kernel can take those at any time."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_Dirty:"))


def _kinds(pid: int) -> Counter[str]:
    private, kind = Counter({"page tables": _status(pid, "VmPTE")}), ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            private[kind] += int(line.split()[1]) * 1024
        elif (mapping := MAPPING.match(line)) is not None:
            kind = _kind(*mapping.groups())
    return private


def _kind(permissions: str, inode: str, path: str) -> str:
    if path == "[heap]":
        return "malloc heap"
    if path.startswith("[stack"):
        return "stacks"
    if "(deleted)" in path:
        return "spill file, changed since"
    if inode != "0":
        return "data of libraries"
    return "anonymous: arenas of Python, large tensors, stacks of threads" if "w" in permissions else "other"


def _status(pid: int, key: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def _resident(pid: int) -> int:
    try:
        return _status(pid, "RssAnon")
    except (OSError, StopIteration):
        return 0


def _children(pid: int | str) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def ranks_below(root: int | str) -> Iterator[int]:
    """The processes of all ranks of runs that a process, or "self", has begun, on this host."""
    for server in _fork_servers(root):
        yield from _children(server)


def _fork_servers(root: int | str) -> Iterator[int]:
    for child in _children(root):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"prism.gpu.processes.zygote" in command:
            yield child
        yield from _fork_servers(child)


def measure(scenario: Path, out: Path, settings: Sequence[str]) -> tuple[Peak, float, float, str]:
    """Run the capture; returns its peak, seconds of wall time and of CPU, and the lines of its progress."""
    command = [sys.executable, "-m", "prism.coordinator", str(scenario), "--out", str(out)]
    command += [word for setting in settings for word in ("--set", setting)]
    start, before = time.monotonic(), os.times()
    with open(out.parent / "progress", "w+") as progress:
        process = subprocess.Popen(command, stdout=progress, stderr=progress)
        peak = Peak()
        while process.poll() is None:
            begun = time.monotonic()
            peak = max(peak, sweep(process.pid), key=lambda seen: seen.private)
            time.sleep(REST * (time.monotonic() - begun) + 0.1)
        progress.seek(0)
        told = progress.read()
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    if process.returncode:
        sys.exit(told)
    return peak, time.monotonic() - start, cpu, told


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--bound", help="devices.host_memory, such as 4GiB; left out: none")
    parser.add_argument("--spill", type=Path, help="devices.spill, a folder on a disk")
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--args", default="2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "memory.yaml"
        arguments = ", ".join(f'"{word}"' for word in shlex.split(options.args))
        scenario.write_text(
            f"prism: 1\nname: memory\nprogram: {{script: {options.program.resolve()}, args: [{arguments}]}}\n"
            f"world: {{size: {options.ranks}}}\nstages: [capture]\n"
        )
        settings = [f"devices.host_memory={options.bound}"] if options.bound else []
        settings += [f"devices.spill={options.spill.resolve()}"] if options.spill else []
        peak, wall, cpu, told = measure(scenario, Path(folder) / "out", settings)
    print("\n".join(line for line in told.splitlines() if "host memory" in line))
    print(f"{options.ranks} ranks: {wall:.0f} s of wall time, {cpu:.0f} s of CPU")
    print(f"at the peak {peak.ranks} ranks held {peak.private / MIB:,.0f} MiB, and share {peak.shared / MIB:,.0f} MiB")
    print("\n| kind | MiB a rank |\n|---|---|")
    for kind, nbytes in peak.kinds.most_common():
        print(f"| {kind} | {nbytes / MIB / max(peak.sampled, 1):.2f} |")


if __name__ == "__main__":
    main()
