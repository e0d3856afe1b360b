"""The ways to start: by a URL, by a store of one's own, and once more after an end."""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
from checking import check, main

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
SHARED: list[object] = []  # a folder that all ranks know, from the first check on


def total() -> float:
    """What the ranks' numbers sum to in the group that has just been made, which ends here."""
    data = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(data)
    dist.destroy_process_group()
    return data.item()


@check("init by env://")
def by_environment() -> object:
    dist.init_process_group("gloo")
    SHARED[:] = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(SHARED)
    return total()


@check("init by file://")
def by_file() -> object:
    dist.init_process_group("gloo", init_method=f"file://{SHARED[0]}/init", rank=RANK, world_size=WORLD)
    return total()


@check("init by a FileStore")
def by_file_store() -> object:
    store = dist.FileStore(f"{SHARED[0]}/store", WORLD)
    dist.init_process_group("gloo", store=store, rank=RANK, world_size=WORLD)
    return total()


@check("init by a TCPStore")
def by_tcp_store() -> object:
    dist.init_process_group("gloo", init_method=f"file://{SHARED[0]}/ports", rank=RANK, world_size=WORLD)
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if RANK == 0 else None
    given = [server.port if server else None]
    dist.broadcast_object_list(given)
    dist.destroy_process_group()
    store = server or dist.TCPStore("127.0.0.1", given[0], is_master=False)
    dist.init_process_group("gloo", store=dist.PrefixStore("first", store), rank=RANK, world_size=WORLD)
    first = total()
    dist.init_process_group("gloo", store=dist.PrefixStore("second", store), rank=RANK, world_size=WORLD)
    dist.barrier()
    second = total()
    return [first, second]


@check("destroy and init again")
def again() -> object:
    totals = []
    for name in ("a", "b", "c"):
        store = dist.FileStore(f"{SHARED[0]}/{name}", WORLD)
        dist.init_process_group("gloo", store=store, rank=RANK, world_size=WORLD)
        group = dist.new_group([0, 1])
        if RANK < 2:
            dist.barrier(group)
        totals.append(total())
    return totals


@check("init by a HashStore for each rank")
def by_hash_store() -> object:
    timeout = timedelta(seconds=3)  # gloo waits that long for the other ranks' addresses
    dist.init_process_group("gloo", store=dist.HashStore(), rank=RANK, world_size=WORLD, timeout=timeout)
    value = total()
    assert value == 10.0, value
    return value


if __name__ == "__main__":
    main(group=False)
