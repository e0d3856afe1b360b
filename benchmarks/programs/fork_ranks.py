"""Starts real runs without an import of torch for each rank: reads runs, a line of JSON each, and answers each so.

A run: {"id", "program": [path, argument...], "world", "logs", "cap": bytes or 0, "limit": s}. Its ranks are forked from
this process, which has not touched CUDA, get the variables that torchrun gives, and a host id of their own for NCCL,
which lets them share a GPU then. The answer: {"id", "failed": why, or ""}; logs/<rank>.log is what a rank printed.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

os.environ |= {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "OMP_NUM_THREADS": "1"}

import torch
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor.parallel

GRACE_S = 5.0
"""How long ranks may go on once one has failed; they may be about to fail by themselves."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def rank(run: dict[str, Any], number: int, port: int) -> NoReturn:
    """Become a rank."""
    log = os.open(f"{run['logs']}/{number}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    world = str(run["world"])
    os.environ |= {
        "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_HOSTID": f"h{number}", "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    code = 1
    try:
        if run["cap"]:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(run["cap"] / total)
        sys.argv = list(run["program"])
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def carry_out(run: dict[str, Any]) -> str:
    """Run it; returns why it failed."""
    port, deadline = free_port(), time.monotonic() + run["limit"]
    left: dict[int, int] = {}
    for number in range(run["world"]):
        if (pid := os.fork()) == 0:
            rank(run, number, port)
        left[pid] = number
    failed: list[str] = []
    while left and time.monotonic() < deadline:
        for pid in list(left):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended and (number := left.pop(pid)) >= 0 and status:
                failed.append(f"rank {number}: {os.waitstatus_to_exitcode(status)}")
                deadline = min(deadline, time.monotonic() + GRACE_S)
        time.sleep(0.02)
    if left and not failed:
        failed.append(f"took more than {run['limit']:.0f} s")
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return "; ".join(failed)


def begin(run: dict[str, Any]) -> int:
    """Carry a run out in a process of its own; returns where it says why it failed."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            reason = carry_out(run)
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
        os.write(write, reason.encode()[:4000] + b"\n")
        os._exit(0)
    os.close(write)
    return read


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    runs: dict[int, int] = {}  # where a run says how it ended -> its id
    buffer, reading = b"", True
    while reading or runs:
        ready, _, _ = select.select([*([0] if reading else []), *runs], [], [])
        for descriptor in ready:
            if descriptor != 0:
                failed = os.read(descriptor, 4096).decode().strip()
                os.close(descriptor)
                print(json.dumps({"id": runs.pop(descriptor), "failed": failed}), flush=True)
                continue
            told = os.read(0, 1 << 16)
            reading = bool(told)
            *lines, buffer = (buffer + told).split(b"\n")
            for line in lines:
                run = json.loads(line)
                runs[begin(run)] = run["id"]


if __name__ == "__main__":
    main()
