"""The fork server of gloo_reference: it imports torch once and forks one child per rank of each job it is asked for.

A request is one line of JSON on stdin, {script, args, world, directory, timeout}; rank R's output goes to the files
R.out and R.err of the directory, and the answer is one line, {codes}: per rank its exit code, or null where it had to
be killed because it was late or because another rank failed. It leaves, with its children, when stdin closes.
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

import torch
import torch._dynamo  # torch's optimizers import it at their first step, which costs each rank a second or two
import torch.distributed as dist


def serve() -> None:
    torch.set_num_threads(1)  # a child must not need threads that the fork has not copied
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps({"codes": run_job(json.loads(line))}), flush=True)


def run_job(request: dict[str, Any]) -> list[int | None]:
    # The store is ours, as torchrun's agent holds it: no port to guess that another job may take. Its thread starts
    # after the forks only, since a child that is forked while that thread holds a lock hangs; until then the ranks'
    # connections queue on the socket.
    listening = socket.create_server(("127.0.0.1", 0), backlog=request["world"])
    port = listening.getsockname()[1]
    children = [fork_rank(request, rank, port) for rank in range(request["world"])]
    store = dist.TCPStore(
        "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
    )
    descriptors = {os.pidfd_open(pid): rank for rank, pid in enumerate(children)}
    try:
        return wait_for_ranks(children, descriptors, time.monotonic() + request["timeout"])
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        del store  # ends its thread before the next fork


def wait_for_ranks(children: list[int], descriptors: dict[int, int], deadline: float) -> list[int | None]:
    """Exit codes by rank; the first failure, the deadline and the end of stdin have the other ranks killed."""
    codes: list[int | None] = [None] * len(children)
    poller = select.poll()
    poller.register(sys.stdin, select.POLLHUP)
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    running = set(range(len(children)))
    while running and not any(codes):
        ready = [descriptor for descriptor, _ in poller.poll(max(0.0, deadline - time.monotonic()) * 1000)]
        if not ready or sys.stdin.fileno() in ready:
            break
        for descriptor in ready:
            poller.unregister(descriptor)
            rank = descriptors[descriptor]
            codes[rank] = os.waitstatus_to_exitcode(os.waitpid(children[rank], 0)[1])
            running.remove(rank)
    for rank in running:
        os.kill(children[rank], signal.SIGKILL)
    for rank in running:
        os.waitpid(children[rank], 0)
    return codes


def fork_rank(request: dict[str, Any], rank: int, port: int) -> int:
    # Opened before the fork, so that the files are there however early the child is killed.
    name = f"{request['directory']}/{rank}"
    with open(os.devnull, "rb") as nothing, open(f"{name}.out", "wb") as out, open(f"{name}.err", "wb") as err:
        pid = os.fork()
        if pid == 0:
            for stream, file in enumerate((nothing, out, err)):
                os.dup2(file.fileno(), stream)
            become_rank(request, rank, port)
    return pid


def become_rank(request: dict[str, Any], rank: int, port: int) -> NoReturn:
    """Run the script with the environment, arguments and path that torchrun would give it, and exit."""
    world = request["world"]
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    os.environ |= {name: str(value) for name, value in ranks.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    sys.argv = [request["script"], *request["args"]]
    sys.path[0] = str(Path(request["script"]).parent)
    code = 1
    try:
        runpy.run_path(request["script"], run_name="__main__")
        code = 0
    except SystemExit as ending:
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the server's own way out is not the child's


if __name__ == "__main__":
    serve()
