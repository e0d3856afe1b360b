"""The processes of one real run on GPUs: a rank each, on a GPU of its own, or sharing one where there are fewer."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

APART = {"NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}
"""What lets ranks of one machine share a GPU, with a host id each; they talk by sockets then."""
ROOT = Path(__file__).parents[1]
"""Programs import what they share from here."""


class Failed(Exception):
    """A run that ended badly, or not in time."""


_PORTS = itertools.count(10_000 + os.getpid() % 10_000)
"""Below those from which the kernel chooses (32768 and up)."""


def environments(ranks: int, gpus: int, preloaded: Path | None = None) -> list[dict[str, str]]:
    """Of each rank what torchrun gives it; `preloaded`: a library; with fewer `gpus` than ranks they share them."""
    others = os.environ.get("LD_PRELOAD", "")
    common = {
        **os.environ, **({"LD_PRELOAD": f"{preloaded} {others}".strip()} if preloaded else {}),
        "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()), "NCCL_NVLS_ENABLE": "0", "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    }  # fmt: skip
    shared = ranks > max(gpus, 1)
    return [
        {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        | ({**APART, "NCCL_HOSTID": f"host-{rank}"} if shared else {})
        for rank in range(ranks)
    ]


def free_port() -> int:
    """One that nobody listens at, and that the kernel gives to nobody until a rank does."""
    return next(port for port in _PORTS if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def printed(program: Sequence[Any], places: Sequence[dict[str, str]], limit: float) -> list[str]:
    """What each rank of a Python program prints; raises Failed if one fails, or takes more than `limit` s."""
    words = [sys.executable, *map(str, program)]
    running = [
        subprocess.Popen(words, env=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for place in places
    ]
    deadline = time.monotonic() + limit
    try:
        texts = [each.communicate(timeout=max(deadline - time.monotonic(), 0.0))[0] for each in running]
    except subprocess.TimeoutExpired:
        raise Failed(f"{Path(words[1]).name}: took more than {limit:.0f} s") from None
    finally:
        for each in running:
            each.kill()
    for each, text in zip(running, texts, strict=True):
        if each.returncode:
            raise Failed(f"{Path(words[1]).name}: exit {each.returncode}: {text[-1500:]}")
    return texts
