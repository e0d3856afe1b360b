"""Torch's own NCCL group, as torch itself would make it, but for the store."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import FileStore  # dist.FileStore is the program's

from prism.gpu.emulation.device.engine import Engine, Group
from prism.gpu.emulation.device.id_store import IdStore

ENVIRONMENT = {
    "TORCH_NCCL_RANKS_PER_ROOT": str(1 << 24),  # one id a communicator, however many members: the rest are virtual
}
ON_ONE_GPU = {"NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}
"""Without a host id of its own each, NCCL refuses processes that share a GPU; then the loopback joins them."""


def prepare_environment(rank: int, shared: bool) -> None:
    """What NCCL and torch read when the first group is made; `shared`: sandbox ranks share a GPU."""
    for name, value in ENVIRONMENT.items():
        os.environ[name] = value
    for name, value in {**ON_ONE_GPU, "NCCL_HOSTID": f"prism-{rank}"}.items() if shared else ():
        os.environ.setdefault(name, value)


class Carriers:
    """Makes the group that carries out a communicator's operations; `directory` is shared by the sandbox ranks."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self._engine = engine
        self._directory = directory
        self._made: dict[str, int] = {}
        self._stores: list[IdStore] = []  # torch keeps what is of C++ of them, and asks what is of Python

    def make(self, name: str, ranks: Sequence[int], options: Any, timeout: timedelta | None) -> Any:
        """The group of the members with these global ranks."""
        group = self._engine.group(name, ranks)
        store = self._store(group, name)
        return process_group(store, group.rank, group.part.size, _options(name, ranks, options, timeout))

    def _store(self, group: Group, name: str) -> Any:
        if group.virtual:
            identify = functools.partial(self._identify, group)
            self._stores.append(IdStore(group.part.size, identify))
            return self._stores[-1]
        times = self._made[name] = self._made.get(name, 0) + 1
        if group.part.size == 1:
            return dist.HashStore()
        digest = hashlib.sha256(f"{name} {times} {group.part.ranks}".encode()).hexdigest()[:16]
        return FileStore(str(self._directory / f"nccl-{digest}"), group.part.size)

    def _identify(self, group: Group, unique: bytes, members: Sequence[int]) -> None:
        self._engine.identify(unique, group, members)


def process_group(store: Any, rank: int, size: int, options: Any) -> Any:
    """Torch's NCCL group."""
    return dist.ProcessGroupNCCL(store, rank, size, options)


def _options(name: str, ranks: Sequence[int], options: Any, timeout: timedelta | None) -> Any:
    """The program's own, as torch completes them; nothing is split from a group that this process does not have."""
    if not isinstance(options, dist.ProcessGroupNCCL.Options):
        options = dist.ProcessGroupNCCL.Options()
    if timeout is not None:
        options._timeout = timeout
    options.split_from = None
    options.global_ranks_in_group, options.group_name = list(ranks), name
    return options
