"""Many small processes with a context of a GPU each: seconds and memory of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from prism.gpu.cuda.residency_abi import library_path

AT_ONCE = 4
"""Processes that make their contexts at one time, as ranks do that begin in so many slots."""
FORKED = """
import os, sys, time, torch
count, at_once, begun = int(sys.argv[1]), int(sys.argv[2]), []
def live(number, write):
    try:
        x = torch.ones(1 << 20, device="cuda").mul_(number % 100); torch.cuda.synchronize()
        os.write(write, b"right" if int(x[0]) == number % 100 else b"wrong"); sys.stdin.read()
    except BaseException as error:
        os.write(write, repr(error).encode()[:300])
    os._exit(0)
start, told = time.perf_counter(), []
for number in range(count):
    read, write = os.pipe()
    if os.fork() == 0:
        live(number, write)
    os.close(write); begun.append(read)
    if len(begun) - len(told) >= at_once:
        told.append(os.read(begun[len(told)], 300))
told += [os.read(read, 300) for read in begun[len(told):]]
errors = sorted({one.decode() for one in told} - {"right"})
import json
print(json.dumps({"right": told.count(b"right"), "s": time.perf_counter() - start, "errors": errors}), flush=True)
sys.stdin.read()
"""


def contexts(folder: Path) -> dict[str, Any]:
    """Many small processes with a context each: seconds and memory of one."""
    found: dict[str, Any] = {}
    for count in (1, 128):
        free = device_free()
        environment = {**os.environ, "LD_PRELOAD": str(library_path())}
        command = [sys.executable, "-c", FORKED, str(count), str(AT_ONCE)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        each = (free - device_free()) / count
        found[str(count)] = {**told, "s_each": told["s"] / count, "bytes_each": each, "host_free": host_free()}
        process.communicate()
    return found


def host_free() -> int:
    """Bytes of the host's memory that programs can still have."""
    (line,) = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) << 10


def device_free() -> int:
    """Bytes that the device has free, asked without a context."""
    ask = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    return int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()[0]) << 20
