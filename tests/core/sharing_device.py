"""Ranks with memory on devices that are too small for all of them: processes and devices, made up, for the world."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prism.core.events import (
    AnyEvent,
    Delivered,
    Exited,
    Finished,
    Folded,
    Launched,
    PagedIn,
    PagedOut,
    Pressed,
    Probed,
    Suspended,
)
from prism.core.instructions import (
    AnyInstruction,
    Deliver,
    Fold,
    Kill,
    Launch,
    Leave,
    PageIn,
    PageOut,
    Probe,
    Resume,
    Room,
    Run,
    Suspend,
)
from prism.core.stage.turns import QUANTUM, SCARCE
from tests.core.actors import RESULT, Stage, all_reduce, bytes_of, joined, posted, waited

SPARE = 2
MOST = 3000
"""Events after which a run that has not ended never will; the longest has a few hundred."""


@dataclass
class Process:
    """One rank: it takes memory in steps, and after each takes part in an all_reduce."""

    rank: int
    wants: deque[Any]
    has: int = 0  # on the device
    away: int = 0
    coming: int = 0  # of what was away
    taking: int = 0  # what it asks for in the middle of its program
    needs: bool = False  # whether it cannot do without
    handle: int = 0
    over: bool = False
    out_of_memory: bool = False
    copy: int = 0  # in host memory
    on_disk: bool = False
    said: list[AnyEvent] | None = None  # by the time at which it was stopped; None: it is not
    told: list[AnyInstruction] = field(default_factory=list)  # while it was stopped


@dataclass
class Device:
    """A device of so many units, its ranks, and what they have to say; what is said first is a matter of luck.

    `host`: units of host memory for copies; None sets no bound. `devices`: so many of that size, dealt out in turn.
    `silence`: how often so much time goes by before anybody says anything that silent ranks are looked at; `waits`:
    what is seen of them then.
    """

    size: int
    stage: Stage
    luck: random.Random
    processes: dict[int, Process] = field(default_factory=dict)
    events: list[AnyEvent] = field(default_factory=list)
    host: int | None = None
    most_copied: int = 0  # at one time
    devices: int = 1
    silence: float = 0.0
    waits: bool = False
    stops: int = 0  # how often a rank was stopped

    @property
    def copied(self) -> int:
        return sum(process.copy for process in self.processes.values())

    def device(self, rank: int) -> int:
        return rank % self.devices

    def free(self, rank: int) -> int:
        """Of the device of a rank."""
        beside = (each for each in self.processes.values() if self.device(each.rank) == self.device(rank))
        return self.size - sum(process.has for process in beside)

    def run(self, wants: Sequence[Sequence[Any]]) -> None:
        """Let all ranks come to their ends; fails if nobody has anything to say before."""
        self.processes = {rank: Process(rank, deque(steps)) for rank, steps in enumerate(wants)}
        self.obey(self.stage.first)
        for _ in range(MOST):
            if self.stage.world.over:
                return
            if self.luck.random() < self.silence:
                self.obey(self.stage.pass_time(QUANTUM * SCARCE))
            heard = self._heard()
            assert heard, f"nobody goes on: {self.stage.states()}, {self.stage.world.pager.residency._places}"
            self.stage.now += 1
            self.obey(self.stage.hear(self.events.pop(self.luck.choice(heard))))
            assert all(self.free(rank) >= 0 for rank in self.processes)
        raise AssertionError(f"no end: {self.stage.states()}, {self.stage.world.pager.residency._places}")

    def _heard(self) -> list[int]:
        """Which events may be heard next: what one rank says stays in order, and who is stopped says nothing more."""
        first: dict[tuple[int, bool], int] = {}
        for at, event in enumerate(self.events):
            said = self.processes[event.rank].said
            if isinstance(event, Probed):
                first.setdefault((event.rank, True), at)
            elif said is None or any(event is before for before in said):
                first.setdefault((event.rank, False), at)
        return sorted(first.values())

    def obey(self, told: list[AnyInstruction]) -> None:
        for instruction in told:
            process = self.processes[instruction.rank]
            if isinstance(instruction, Probe | Suspend | Resume):
                self._look(process, instruction)
                continue
            if process.said is not None and not isinstance(instruction, Kill):
                process.told.append(instruction)
                continue
            touches = isinstance(instruction, Deliver | Run)
            assert not (touches and (process.away or process.coming)), f"{instruction} while the memory is away"
            self.carry_out(process, instruction)

    def _look(self, process: Process, instruction: AnyInstruction) -> None:
        """What the worker does by itself."""
        match instruction:
            case Probe(rank=rank):
                self.events.append(Probed(rank=rank, waiting=self.waits))
            case Suspend(rank=rank):
                saying = [
                    at for at, event in enumerate(self.events) if event.rank == rank and not isinstance(event, Probed)
                ]
                last = self.luck.choice([-1, *saying])
                process.said = [event for event in self.events[: last + 1] if event.rank == rank]
                process.said.append(Suspended(rank=rank))
                self.events.insert(last + 1, process.said[-1])
                self.stops += 1
            case Resume():
                process.said = None
                told, process.told = process.told, []
                self.obey(told)

    def carry_out(self, process: Process, instruction: AnyInstruction) -> None:
        rank = process.rank
        match instruction:
            case Launch():
                self.events += [Launched(rank=rank, pid=rank), joined(rank, range(len(self.processes)))]
                self.go_on(process)
            case Run():
                self.go_on(process)
            case Deliver(handle=handle):
                self.events.append(Delivered(rank=rank, handle=handle))
            case Fold(op=op):
                self.events.append(Folded(rank=rank, op=op, results=(RESULT,)))
            case PageOut(disk=True):
                process.copy, process.on_disk = 0, True
                self.events.append(
                    PagedOut(rank=rank, nbytes=process.away, free=self.free(rank), device=self.device(rank), disk=True)
                )
            case PageOut():
                self.leave(process)
            case PageIn():
                self.come(process)
            case Room(granted=granted):
                self.answered(process, granted)
            case Leave() | Kill():
                process.has = process.away = process.copy = 0
                self.events.append(Exited(rank=rank, code=0))

    def go_on(self, process: Process) -> None:
        if process.wants:
            process.taking = process.wants.popleft()
            self.take(process)
        else:
            self.events.append(Finished(rank=process.rank, code=0))

    def take(self, process: Process) -> None:
        free = self.free(process.rank)
        if free < process.taking + SPARE:
            process.needs = free < process.taking
            self.press(process, process.taking)
        else:
            self.taken(process)

    def press(self, process: Process, nbytes: int) -> None:
        rank = process.rank
        self.events.append(Pressed(rank=rank, nbytes=nbytes, free=self.free(rank), device=self.device(rank)))

    def taken(self, process: Process) -> None:
        process.has += process.taking
        process.handle += 1
        post = posted(process.rank, process.handle, all_reduce(), payload=bytes_of(process.rank, process.handle))
        self.events += [post, waited(process.rank, process.handle)]

    def leave(self, process: Process) -> None:
        if self.host is not None and self.copied + process.has > self.host:
            self.events.append(PagedOut(rank=process.rank, error="host memory is full", full=True))
            return
        process.away, process.has = process.has, 0
        process.copy = process.away
        self.most_copied = max(self.most_copied, self.copied)
        rank = process.rank
        self.events.append(PagedOut(rank=rank, nbytes=process.away, free=self.free(rank), device=self.device(rank)))

    def come(self, process: Process) -> None:
        rank = process.rank
        here = min(self.free(rank), process.away)
        process.has, process.away, process.coming = process.has + here, process.away - here, process.coming + here
        if process.away:
            self.press(process, process.away)
        else:
            process.coming = process.copy = 0
            disk, process.on_disk = process.on_disk, False
            free, device = self.free(rank), self.device(rank)
            self.events.append(PagedIn(rank=rank, nbytes=process.has, free=free, device=device, disk=disk))

    def answered(self, process: Process, granted: bool) -> None:
        rank = process.rank
        free = self.free(rank)
        if process.away and (granted or process.away <= free):
            self.come(process)
        elif process.away:
            process.has, process.away, process.coming = 0, process.has + process.away, 0
            told = PagedIn(rank=rank, free=self.free(rank), device=self.device(rank), disk=process.on_disk)
            self.events.append(msgspec.structs.replace(told, error="no room", full=True))
        elif granted and free < process.taking + SPARE:
            self.take(process)
        elif process.taking <= free:
            self.taken(process)
        elif not process.needs:  # there was enough when it asked
            self.take(process)
        else:
            process.out_of_memory = True
            self.events.append(Finished(rank=rank, code=1))
