"""The workers of a run: set up for a stage, told what to do, heard, and let go."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from prism.core.events import AnyEvent
from prism.core.instructions import AnyInstruction
from prism.crew.attendance import Attendance, Lost
from prism.crew.spreading import clocks, pieces, spread, take_in
from prism.errors import ProtocolError, RunError
from prism.exhaustion import room_in
from prism.gpu.processes.stage_files import MOST
from prism.net.dealing import most_lanes
from prism.net.launchers import Launcher
from prism.net.launchers.local import LocalLauncher
from prism.net.messages import Dismiss, Dismissed, FromWorker, Laid, Order, Prepared, Printed, Report, Setup, Spread
from prism.net.schedule import SCHEDULE, Schedule
from prism.report.units import rank_ranges

__all__ = ["Crew", "Lost"]

DISMISS_S = 1.0
"""How long what is left of a stage has to go before the run goes on without its word; the next stage waits for it."""
_PRINTED = re.compile(r"(\d+|assistant-\d+)(\.\w{1,32}){1,3}")
"""The names of files of ranks: prism.gpu.processes.stage_files."""
LOGS_S = 20.0
"""How long the next piece of what ranks have printed on another host may be in coming."""


class Crew(Attendance):
    """The workers that are there, as one; see Attendance for their coming and going."""

    def __init__(self, launcher: Launcher | None = None, say: Callable[[str], None] = lambda text: None) -> None:
        super().__init__(launcher or LocalLauncher(), say)
        self._ranks: dict[int, str] = {}  # the worker of each rank of the stage, where there are several
        self._logs = Path()
        self._taken = False  # whether a stage has them
        self._room = self.scratch  # what the processes of an emulation share, once there is one

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.members)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the workers for a stage; raises RunError while another one has them."""
        if self._taken:
            raise RunError("the crew works for another stage; await one after the other, or give each run a crew")
        self._taken = True
        try:
            yield
        finally:
            self._taken = False

    async def prepare(self, setup: Setup, places: Mapping[int, int] | None = None) -> None:
        """Set the workers up for a stage; `places`: the worker of each rank, by number, left out: the first.

        Raises PreloadError if what the scenario preloads cannot be imported.
        """
        names = list(self.members)
        there = dict(enumerate(names))  # one that was there when places were chosen may just have been lost
        self._ranks = {rank: there.get(place, "") for rank, place in places.items()} if places else {}
        self._logs = Path(setup.logs)
        ferries = {name: member.ferry for name, member in self.members.items() if member.ferry}
        spreads = await self._spread(setup, places) if ferries and setup.emulation is not None else {}
        with self._marker() if ferries else contextlib.nullcontext("") as marker:
            for name in names:
                others = {other: ferry for other, ferry in ferries.items() if other != name}
                mine = msgspec.structs.replace(setup, ferries=others, marker=marker, spread=spreads.get(name))
                self.tell(name, mine)
            await self.all_say(Prepared)

    async def dismiss(self, hurry: bool = False) -> None:
        """End what is left of the stage, whatever is said of it now: how it went is decided.

        `hurry`: what ranks have printed on other hosts is not waited for. Raises ProtocolError for a worker that says
        of the stage what cannot be.
        """
        apart = any(member.ferry for member in self.members.values())
        for name in self.members:
            self.tell(name, Dismiss())
        with contextlib.suppress(RunError, TimeoutError):  # a worker that is lost has nothing left
            await self._all_dismissed(LOGS_S if apart and not hurry else DISMISS_S)

    def room(self, name: str) -> Path:
        """A fresh private directory in memory for what the processes of a stage share."""
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700)
        return path

    def order(self, instructions: Sequence[AnyInstruction]) -> None:
        """Pass instructions on to the workers of the ranks that they are for."""
        if not self._ranks:
            if instructions:
                self.tell(next(iter(self.members), ""), Order(instructions=tuple(instructions)))
            return
        dealt: dict[str, list[AnyInstruction]] = {}
        for instruction in instructions:
            dealt.setdefault(self._ranks[instruction.rank], []).append(instruction)
        for name, of_worker in dealt.items():
            self.tell(name, Order(instructions=tuple(of_worker)))

    async def events(self) -> tuple[AnyEvent, ...]:
        """The next events, in the order in which their worker heard them."""
        _, report = await self.expect(Report)
        assert isinstance(report, Report)
        return report.events

    def lost_with(self, name: str) -> str:
        """The ranks that ran on a worker, where others have gone on."""
        ranks = [rank for rank, of in self._ranks.items() if of == name]
        return f"; lost with it: what ranks {rank_ranges(ranks)} had done of this stage" if ranks else ""

    async def _spread(self, setup: Setup, places: Mapping[int, int] | None) -> dict[str, Spread]:
        """Lay out on all hosts what the processes of an emulation share, and say who is where."""
        assert setup.emulation is not None
        self._room = Path(setup.emulation.directory)
        lanes = most_lanes(Schedule.load(self._room / SCHEDULE))
        where = spread(setup.emulation, self.members, places or dict.fromkeys(setup.emulation.sandbox, 0), lanes)
        ahead = await clocks(list(self.members), self.tell, self.expect)
        for name in self.members:
            for piece in pieces(self._room):
                self.tell(name, piece)
        return {name: msgspec.structs.replace(where, ahead=ahead[name]) for name in self.members}

    async def _all_dismissed(self, patience_s: float) -> None:
        """Return once all workers have said that nothing is left; what ranks printed elsewhere comes before that."""
        said: set[str] = set()
        while not said >= self.members.keys():
            name, message = await asyncio.wait_for(self.expect(FromWorker, over=True), patience_s)
            with self._blame(name):
                if isinstance(message, Printed):
                    self._keep(message)
                elif isinstance(message, Laid):
                    take_in(self._room, message)
            if isinstance(message, Dismissed):
                said.add(name)

    @contextmanager
    def _blame(self, name: str) -> Iterator[None]:
        try:
            yield
        except ProtocolError as error:
            raise ProtocolError(f"{name}: {error}") from error

    def _keep(self, part: Printed) -> None:
        """Write what a rank has printed on another host to where it would be had it run here."""
        if not _PRINTED.fullmatch(part.file) or not 0 <= part.at <= MOST:
            raise ProtocolError(f"bytes from {part.at} on of {part.file!r} are nothing that a rank has printed")
        with room_in(self._logs, len(part.data)):
            descriptor = os.open(
                self._logs / part.file, os.O_WRONLY | os.O_CREAT | (0 if part.at else os.O_TRUNC), 0o644
            )
            try:
                os.pwrite(descriptor, part.data, part.at)
            finally:
                os.close(descriptor)

    @contextmanager
    def _marker(self) -> Iterator[str]:
        """A file beside the logs for the time in which workers look whether they have the same folder."""
        path = self._logs / f".shared-{uuid.uuid4().hex}"
        with room_in(self._logs):
            path.touch()
        try:
            yield path.name
        finally:
            path.unlink(missing_ok=True)
