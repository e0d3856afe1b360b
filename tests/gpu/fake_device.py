"""A stand-in for NCCL and the engine on a device, where there is neither: the host's engine does what was planned.

A fork server that imports this module has it in all its ranks: the library, torch's NCCL group and the driver are not
the real ones, and tensors of the host count as the device's. So a sandbox rank goes the whole way, from the schedule
through the plan and the releases to its results, and nothing but the kernels is missing.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from prism.core.graph import OpKind
from prism.gpu._backend import Backend
from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.nvml import Clocks
from prism.gpu.cuda.watch import ClockWatch
from prism.gpu.emulation.buffers import Buffer
from prism.gpu.emulation.device import abi, life, nccl, paced
from prism.gpu.emulation.device import link as device_link
from prism.gpu.emulation.device.engine import MODES
from prism.gpu.emulation.device.id_store import IdStore
from prism.gpu.emulation.device.planned import Part, Partner, Planned
from prism.gpu.meter.memory import MemoryMeter
from prism.gpu.pruned import Arc, Contribution, Member, Op, Pipe, arcs
from prism.net.board import Board
from tests.gpu.fake_nccl import FakeGroup

POLL_S = 0.0005
HOT = Clocks(1400, 690.4, 80, ("power cap",))
"""How the device runs, always."""


class FakeDevice:
    """What prism_device_* would do; operations are launched by FakeGroups."""

    def __init__(self) -> None:
        self.identified: dict[bytes, tuple[str, tuple[int, ...]]] = {}
        self.groups: dict[str, tuple[int, int, tuple[int, ...]]] = {}  # size, rank, sandbox
        self.figures = abi.Figures()
        self._planned: dict[str, deque[tuple[int, Planned]]] = defaultdict(deque)
        self._error = abi.Report()
        self._parties: dict[Any, Any] = {}

    def begin(self, setup: abi.Setup) -> None:
        self._fifos = setup.directory.decode()
        self._board = Board(Path(setup.board.decode()), setup.sandbox_ranks, setup.ops)
        self._place, self._mode = setup.place, setup.mode
        self._releases = np.memmap(setup.releases.decode(), np.int64, "r")

    def group(self, name: str, size: int, rank: int, sandbox: Sequence[int], reserve: int = 0) -> None:
        self.groups[name] = size, rank, tuple(sandbox)

    def planned(self, call: Planned, entry: int) -> None:
        self._planned[call.group].append((entry, call))

    def identify(self, unique: bytes, group: str, members: Sequence[int]) -> None:
        assert group in self.groups
        self.identified[unique] = group, tuple(members)

    def start(self) -> None:
        self.started = True

    def state(self) -> abi.Report:
        return self._error

    # -- operations --------------------------------------------------------------------------------------------------

    def collective(self, group: str, now: Op, source: Buffer, target: Buffer) -> Callable[[], None]:
        """The next planned operation of a group, which has to be this one."""
        entry, call = self._take(group, (now.kind, now.dtype, now.reduce, now.root, now.count))
        size, rank, sandbox = self.groups[group]

        def run() -> None:
            self._post(call)
            arc = threading.Thread(target=self._arc, args=(call, now, size, rank, sandbox))
            if any(member[-1] == (rank - 1) % size for member in arcs(size, sandbox).values()):
                self._released(entry)
                arc.start()
            member = self._party(Member, group, size, sandbox, rank, self._mode == MODES["replicas"])
            moved = member.run(now, source.address, target.address)
            if arc.ident is not None:
                arc.join()
            self._show(call, moved)

        return run

    def messages(self, group: str, kind: OpKind, given: Sequence[tuple[Partner, Buffer]]) -> Callable[[], None]:
        """The same for messages, which have to be the planned partners in any order."""
        entry, call = self._take(group, (kind, frozenset((one.peer, one.sends, one.nbytes) for one, _ in given)))
        _, rank, sandbox = self.groups[group]
        places = {(one.peer, one.sends): buffer for one, buffer in given}

        def run() -> None:
            self._post(call)
            if call.partners:
                self._released(entry)
            for one in sorted(call.partners, key=lambda one: not one.sends):
                buffer = places[one.peer, one.sends]
                if one.peer in sandbox:
                    ends = (rank, one.peer) if one.sends else (one.peer, rank)
                    pipe = self._party(Pipe, f"{group}-{ends[0]}-{ends[1]}")
                    (pipe.send if one.sends else pipe.recv)(buffer.address, one.nbytes)
                elif not one.sends:
                    buffer.view()[:] = _read(one.payload, one.nbytes)
            sent, received = (sum(one.nbytes for one in call.partners if one.sends is sends) for sends in (True, False))
            steps = max(sum(one.sends is sends for one in call.partners) for sends in (True, False))
            self._show(call, (steps, sent, received))

        return run

    def _take(self, group: str, now: tuple[Any, ...]) -> tuple[int, Planned]:
        entry, call = self._planned[group].popleft() if self._planned[group] else (-1, None)
        if call is None or now not in (
            (call.kind, call.dtype, call.reduce, call.root, call.count),
            (call.kind, frozenset((one.peer, one.sends, one.nbytes) for one in call.partners)),
        ):
            self._error = abi.Report(abi.MISMATCH, group.encode(), entry, f"{now}, not {call}".encode()[:511])
            raise RuntimeError(f"NCCL error: invalid usage: {now} where {call} was planned")
        return entry, call

    def _arc(self, call: Planned, op: Op, size: int, rank: int, sandbox: tuple[int, ...]) -> None:
        after = next(a for a, members in arcs(size, sandbox).items() if members[-1] == (rank - 1) % size)
        head, tail, final = (
            None if part is None else Buffer.over(bytearray(_read(part, part.nbytes)))
            for part in (call.head, call.tail, call.final)
        )
        addresses = [0 if part is None else part.address for part in (head, tail, final)]
        arc = self._party(Arc, call.group, size, sandbox, after)
        arc.run(op, Contribution(self._mode, *addresses))

    def _party(self, kind: Any, name: str, *arguments: Any) -> Any:
        key = (kind, name)
        if key not in self._parties:
            self._parties[key] = kind(self._fifos, name, *arguments)
        return self._parties[key]

    def _released(self, entry: int) -> None:
        window, most = int(self._releases[1]), int(self._releases[2])
        words = -(-(most + 2) // 8) * 8
        while self._releases[64 + entry % window * words] != entry + 1:
            time.sleep(POLL_S)

    def _post(self, call: Planned) -> None:
        if call.shown:
            self._board.posted[self._place, call.op] = time.monotonic_ns()

    def _show(self, call: Planned, moved: Sequence[int]) -> None:
        if call.shown:
            self._board.moved[self._place, call.op] = moved


def _read(part: Part | None, nbytes: int) -> bytes:
    if part is None:
        return bytes(nbytes)
    with open(part.path, "rb") as file:
        return os.pread(file.fileno(), part.nbytes, part.offset)


class FakeEvent:
    """The time at which it was recorded: what the host has done by then, the device has too."""

    def __init__(self) -> None:
        self.at = time.monotonic_ns()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: FakeEvent) -> float:
        return (other.at - self.at) / 1e6


class FakeDriver(Driver):
    """Tensors of the host are the device's, whose clock is the host's."""

    def holds(self, tensor: torch.Tensor) -> bool:
        return True

    def index(self) -> int:
        return 0

    def ready(self) -> bool:
        return True

    def capturing(self) -> bool:
        return False

    def current(self) -> Any:
        return None

    def mark(self, stream: Any, timed: bool = False) -> Any:
        return FakeEvent()

    def pinned(self, nbytes: int) -> torch.Tensor:
        return torch.empty(nbytes, dtype=torch.uint8)


def process_group(store: Any, rank: int, size: int, options: Any) -> Any:
    """In the place of torch's NCCL group; without virtual members it is real, and then another of torch's is too."""
    if not isinstance(store, IdStore):
        return dist.ProcessGroupGloo(store, rank, size, timedelta(seconds=60))
    return Backend(FakeGroup(DEVICE, store, rank, size, options), rank, size)


DEVICE = FakeDevice()
abi.load = lambda: DEVICE  # type: ignore[assignment, return-value]
nccl.process_group = process_group
nccl._options = lambda name, ranks, options, timeout: options
life.prepare = lambda setup, link: MemoryMeter()  # type: ignore[assignment, return-value]
device_link.Driver = FakeDriver  # type: ignore[misc]
paced.ClockWatch = functools.partial(ClockWatch, look=lambda gpu: HOT)  # type: ignore[assignment, misc]
