"""The workers of a run: started, set up for a stage, told what to do, heard, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from prism.core.events import AnyEvent
from prism.core.instructions import AnyInstruction
from prism.errors import ProgramError, RunError
from prism.exhaustion import room_in
from prism.gpu import processes
from prism.net.channel import Codec, Hub
from prism.net.keys import make_keys
from prism.net.launch import launch_local
from prism.net.messages import (
    Alive,
    Broken,
    Dismiss,
    Dismissed,
    FromCoordinator,
    FromWorker,
    Goodbye,
    Hello,
    Order,
    Prepared,
    Report,
    Setup,
)
from prism.net.pulse import BEAT_S, BEATS_MISSED, Pulse
from prism.net.scratch import SHARED_MEMORY, make_scratch, remove_scratch
from prism.net.zeromq import ZmqListener

GOODBYE_S = 2.0
"""How long a worker has to end its ranks and itself; then it is killed."""
DISMISS_S = 1.0
"""How long what is left of a stage has to go before the run goes on without its word; the next stage waits for it."""
NAME = "worker-0"


class Lost(RunError):
    """The worker has gone, or does not answer any more."""


class Crew:
    """An async context manager: inside, one worker is connected; `scratch` is a private directory in memory."""

    def __init__(self) -> None:
        with room_in(SHARED_MEMORY):
            self.scratch = make_scratch()
        self._inputs = self.scratch / "inputs"
        self._process: asyncio.subprocess.Process | None = None
        self._hub: Hub[FromWorker, FromCoordinator] | None = None
        self._heard: asyncio.Queue[FromWorker | Lost] = asyncio.Queue()
        self._pulse = Pulse()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            with room_in(self.scratch):
                await self._start()
            await self._expect(Hello)
            self._tasks.append(asyncio.create_task(self._feel()))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        try:
            if self._hub is not None:
                with contextlib.suppress(RunError):  # a worker that has gone needs no goodbye
                    self._hub.send(NAME, Goodbye())
            if self._process is not None:
                await self._end(self._process)
            if self._hub is not None:
                await self._hub.close()
        finally:
            remove_scratch(self.scratch)

    async def prepare(self, setup: Setup) -> None:
        """Set the worker up for a stage; raises ProgramError if what the scenario preloads cannot be imported."""
        with room_in(self.scratch):
            self._clear()
        self._tell(msgspec.structs.replace(setup, scratch=str(self._inputs)))
        await self._expect(Prepared)

    async def dismiss(self) -> None:
        """End what is left of the stage, whatever is said of it now: how it went is decided."""
        with contextlib.suppress(RunError, TimeoutError):  # a worker that is lost has nothing left
            self._tell(Dismiss())
            await asyncio.wait_for(self._expect(Dismissed, over=True), DISMISS_S)

    def room(self, name: str) -> Path:
        """A fresh private directory in memory for what the processes of a stage share."""
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700)
        return path

    def order(self, instructions: Sequence[AnyInstruction]) -> None:
        """Pass instructions on."""
        if instructions:
            self._tell(Order(instructions=tuple(instructions)))

    async def events(self) -> tuple[AnyEvent, ...]:
        """The next events, in the order in which the worker heard them."""
        report = await self._expect(Report)
        assert isinstance(report, Report)
        return report.events

    async def _start(self) -> None:
        keys, worker_keys = make_keys()
        self._hub = Hub(ZmqListener(keys), Codec(FromWorker))
        path = worker_keys.save(self.scratch)
        self._process = await launch_local(self._hub.address, path, NAME)
        self._tasks = [
            asyncio.create_task(self._listen(self._hub)),
            asyncio.create_task(self._watch(self._process)),
        ]

    def _clear(self) -> None:
        """Make room: the inputs of the stage before are spent."""
        shutil.rmtree(self._inputs, ignore_errors=True)
        self._inputs.mkdir()

    def _tell(self, message: FromCoordinator) -> None:
        assert self._hub is not None, "a crew is used inside `async with`"
        self._hub.send(NAME, message)

    async def _expect(self, kind: type[FromWorker], over: bool = False) -> FromWorker:
        """The next message of a kind; raises RunError if the worker is lost, or (unless `over`) says it is broken."""
        while True:
            message = await self._heard.get()
            match message:
                case Lost():
                    self._heard.put_nowait(message)  # for whoever asks next
                    raise message
                case Broken(reason=reason, blame=blame) if not over:
                    raise ProgramError(reason) if blame else RunError(f"{NAME}: {reason}")
                case _ if isinstance(message, kind):
                    return message

    async def _listen(self, hub: Hub[FromWorker, FromCoordinator]) -> None:
        while True:
            _, message = await hub.recv()
            self._pulse.felt()
            if message is None:
                await self._hung_up()
            elif not isinstance(message, Alive):
                self._heard.put_nowait(message)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self._heard.put_nowait(Lost(f"{NAME} was lost ({code}); its output above may say why"))

    async def _hung_up(self) -> None:
        """Its connection has ended; if its process has, how that ended says more."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GOODBYE_S)
            return
        self._heard.put_nowait(Lost(f"{NAME} was lost: its connection has ended; its output above may say why"))

    async def _feel(self) -> None:
        assert self._process is not None
        await self._pulse.stopped()
        while processes.is_starved(self._process.pid):  # a thousand ranks that were all given something may come first
            self._pulse.felt()
            await self._pulse.stopped()
        told = f"{NAME} was lost: it has said nothing for {BEATS_MISSED * BEAT_S:.0f} s, and has been stopped or waits"
        self._heard.put_nowait(Lost(told))
        self._process.kill()  # its ranks go with it

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        try:
            await asyncio.wait_for(process.wait(), GOODBYE_S)
        except TimeoutError:
            process.kill()
            await process.wait()
