"""One rank that calls NCCL straight and through the functions in front of it, by turns; rank 0 prints what it took.

    python passing.py DIRECTORY [BYTES...]

The library in front is preloaded. Prints `PASSING {json}`: for each size in bytes the times of an all_reduce, straight
and through, in microseconds of a stream, and of the host that calls, one of each per round.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.programs.held import turn

ROUNDS = 30
FLOAT, SUM = 7, 0
ENTRIES = {"straight": "pncclAllReduce", "through": "ncclAllReduce"}


class Id(ctypes.Structure):
    """An ncclUniqueId, which is passed by value."""

    _fields_ = (("bytes", ctypes.c_ubyte * 128),)


def communicator(nccl: ctypes.CDLL, rank: int, size: int, directory: Path) -> ctypes.c_void_p:
    """Of all ranks, by an id that rank 0 leaves in the directory."""
    unique, comm = Id(), ctypes.c_void_p()
    store = dist.FileStore(str(directory / "ids"), size)  # type: ignore[attr-defined]
    if rank == 0:
        done(nccl.ncclGetUniqueId(ctypes.byref(unique)))
        store.set("id", bytes(unique).hex())
    unique = Id.from_buffer_copy(bytes.fromhex(store.get("id").decode()))
    done(nccl.ncclCommInitRank(ctypes.byref(comm), size, unique, rank))
    return comm


def done(status: int) -> None:
    """Raise for a result that is no success."""
    if status:
        raise OSError(f"NCCL's result is {status}")


def turns(calls: dict[str, Any], arguments: tuple[Any, ...], count: int) -> dict[str, dict[str, list[float]]]:
    """Both entries in each round, whoever is first; `count` calls each."""
    times: dict[str, dict[str, list[float]]] = {name: {"stream": [], "host": []} for name in calls}
    for number in range(ROUNDS + 3):
        for name in sorted(calls, reverse=number % 2 == 0):
            call, begin, end = calls[name], _event(), _event()
            torch.cuda.synchronize()
            begin.record()
            called = time.perf_counter()
            for _ in range(count):
                call(*arguments)
            host = time.perf_counter() - called
            end.record()
            end.synchronize()
            if number >= 3:
                times[name]["stream"].append(begin.elapsed_time(end) * 1e3 / count)
                times[name]["host"].append(host * 1e6 / count)
    return times


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def main() -> None:
    """One rank."""
    rank, size, directory = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), Path(sys.argv[1])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.ones(1, device="cuda")
    loaded = ctypes.CDLL(None)  # the functions in front, as the program finds them
    real = ctypes.CDLL("libnccl.so.2")  # loaded by torch already
    comm = communicator(loaded, rank, size, directory)
    found = {}
    with turn():
        for nbytes in [int(each) for each in sys.argv[2:]] or [4096, 1 << 20, 1 << 26]:
            tensor = torch.zeros(nbytes // 4, device="cuda")
            place, stream = ctypes.c_void_p(tensor.data_ptr()), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            calls = {name: getattr(real if name == "straight" else loaded, entry) for name, entry in ENTRIES.items()}
            arguments = (place, place, ctypes.c_size_t(nbytes // 4), FLOAT, SUM, comm, stream)
            found[nbytes] = turns(calls, arguments, 50 if nbytes <= 1 << 20 else 5)
    done(loaded.ncclCommDestroy(comm))
    if rank == 0:
        print("PASSING", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
