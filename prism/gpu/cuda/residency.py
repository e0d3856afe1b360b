"""What a rank does when it is told to give its device memory back, or to bring it back.

A thread of its own does it, while the program is held in a wait: all that it has on the device has come to rest then.
The library is preloaded by the fork server; where the program's allocator goes past it, nothing is paged, and a warning
says so.
"""

from __future__ import annotations

import os
import queue
import socket
import struct
import threading
import traceback
from pathlib import Path

from prism.core.events import Broke, Noticed, PagedIn, PagedOut
from prism.core.instructions import PageIn, PageOut
from prism.gpu.cuda import pool_file
from prism.gpu.cuda.residency_abi import DEVICE_FULL, POOL_FULL, SLOT, Moved, Paging, PagingError, library_path
from prism.gpu.processes.room import room_socket
from prism.gpu.rank.link import Link
from prism.net.messages import Setup

SHARE = 0.9
"""Of that directory's file system: how much the pool takes at most where the scenario sets no bound."""
PATIENCE_MS = 200
"""How long each piece of memory is waited for that another rank gives back at this moment: 3 ms once it is at it. Who
could not leave after all gives back nothing, and who first pins its part of the pool is long at it: then room is asked
for."""
PAST_IT = ("expandable_segments:true", "backend:cudamallocasync")
"""Settings of torch's allocator with which it does not use cudaMalloc."""


class Residency:
    """Carries out PageOut and PageIn, one after the other, and tells what became of them."""

    def __init__(self, link: Link, paging: Paging, spill: Path | None) -> None:
        self._link = link
        self._paging = paging
        self._spill = spill
        self._size = 0  # bytes that are away
        self._on_disk = False
        self._told: queue.SimpleQueue[PageOut | PageIn] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="prism-residency", daemon=True).start()

    def put(self, instruction: PageOut | PageIn) -> None:
        """Do what was told, after what was told before."""
        self._told.put(instruction)

    def _serve(self) -> None:
        try:
            while True:
                instruction = self._told.get()
                self._link.tell(self._out(instruction) if isinstance(instruction, PageOut) else self._back(instruction))
        except BaseException as error:
            traceback.print_exc()
            self._link.tell(Broke(rank=self._link.rank, reason=f"{type(error).__name__}: {error}"))

    def _out(self, instruction: PageOut) -> PagedOut:
        rank = self._link.rank
        try:
            moved = self._to_disk() if instruction.disk else self._paging.out()
        except PagingError as error:
            return PagedOut(rank=rank, error=f"rank {rank}: {error}", full=error.status == POOL_FULL)
        self._size, self._on_disk = moved.bytes, instruction.disk
        return PagedOut(
            rank=rank, nbytes=moved.bytes, ns=moved.ns, free=moved.free, device=moved.device, disk=instruction.disk
        )

    def _back(self, instruction: PageIn) -> PagedIn:
        rank = self._link.rank
        try:
            moved = self._paging.back(PATIENCE_MS if instruction.beside else 0)
        except PagingError as error:
            full = error.status == DEVICE_FULL
            return PagedIn(rank=rank, disk=self._on_disk, error=f"rank {rank}: {error}", full=full)
        return PagedIn(
            rank=rank, nbytes=self._size, ns=moved.ns, free=moved.free, device=moved.device, disk=self._on_disk
        )

    def _to_disk(self) -> Moved:
        assert self._spill is not None, "only ranks that have a folder for it are told to use it"
        return self._paging.spill(self._spill / f"rank-{self._link.rank}-{os.getpid()}.pages")


def attach(setup: Setup, link: Link) -> Residency | None:
    """Make a rank's memory movable, before it touches CUDA; None where the library is not preloaded, or of no use."""
    library = library_path()
    if library is None or str(library) not in os.environ.get("LD_PRELOAD", ""):
        return None
    if (setting := passes_by(os.environ)) is not None:
        summary = f"{setting} takes memory past cudaMalloc: it stays on the device, and ranks must fit there together"
        link.tell(Noticed(rank=link.rank, kind="not_paged", summary=summary))
        return None
    paging = Paging(library)
    scratch = Path(setup.scratch)
    paging.open(scratch / pool_file.NAME, setup.host_memory // SLOT or _default_slots(scratch), link.rank + 1)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(str(room_socket(link.address)))
    line.sendall(struct.pack("=Q", link.rank))
    paging.ask_through(line.detach())
    return Residency(link, paging, Path(setup.spill) if setup.spill else None)


def passes_by(environment: os._Environ[str] | dict[str, str]) -> str | None:
    """The setting of torch's allocator, if there is one, by which its memory is not cudaMalloc's."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        value = environment.get(name, "")
        if any(setting in value.lower().replace(" ", "") for setting in PAST_IT):
            return f"{name}={value}"
    return None


def _default_slots(scratch: Path) -> int:
    status = os.statvfs(scratch)
    return max(1, int(status.f_blocks * status.f_frsize * SHARE) // SLOT)
