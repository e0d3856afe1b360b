"""The workers of a run: started, set up for a stage, told what to do, heard, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from prism.core.events import AnyEvent, AnyInstruction
from prism.errors import ProgramError, RunError
from prism.net.channel import Codec, Hub
from prism.net.keys import make_keys
from prism.net.launch import launch_local
from prism.net.messages import Broken, FromCoordinator, FromWorker, Goodbye, Hello, Order, Prepared, Report, Setup
from prism.net.scratch import make_scratch, remove_scratch
from prism.net.zeromq import ZmqListener

GOODBYE_S = 2.0
"""How long a worker has to end its ranks and itself; then it is killed."""
NAME = "worker-0"


class Crew:
    """An async context manager: inside, one worker is connected; `scratch` is a private directory in memory."""

    def __init__(self) -> None:
        self.scratch = make_scratch()
        self._inputs = self.scratch / "inputs"
        self._process: asyncio.subprocess.Process | None = None
        self._hub: Hub[FromWorker, FromCoordinator] | None = None
        self._heard: asyncio.Queue[FromWorker | None] = asyncio.Queue()  # None: the worker has ended
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            keys, worker_keys = make_keys()
            self._hub = Hub(ZmqListener(keys), Codec(FromWorker))
            path = worker_keys.save(self.scratch)
            self._process = await launch_local(self._hub.address, path, NAME)
            self._tasks = [
                asyncio.create_task(self._listen(self._hub)),
                asyncio.create_task(self._watch(self._process)),
            ]
            await self._expect(Hello)
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
        self._clear()
        self._tell(msgspec.structs.replace(setup, scratch=str(self._inputs)))
        await self._expect(Prepared)

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

    def _clear(self) -> None:
        """Make room: the inputs of the stage before are spent."""
        shutil.rmtree(self._inputs, ignore_errors=True)
        self._inputs.mkdir()

    def _tell(self, message: FromCoordinator) -> None:
        assert self._hub is not None, "a crew is used inside `async with`"
        self._hub.send(NAME, message)

    async def _expect(self, kind: type[FromWorker]) -> FromWorker:
        """The next message of a kind; raises RunError if the worker is lost, or says that it is broken."""
        while True:
            message = await self._heard.get()
            match message:
                case None:
                    raise RunError(f"{NAME} was lost; its output above may say why")
                case Broken(reason=reason, blame=blame):
                    raise ProgramError(reason) if blame else RunError(f"{NAME}: {reason}")
                case _ if isinstance(message, kind):
                    return message

    async def _listen(self, hub: Hub[FromWorker, FromCoordinator]) -> None:
        while True:
            _, message = await hub.recv()
            self._heard.put_nowait(message)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self._heard.put_nowait(None)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        try:
            await asyncio.wait_for(process.wait(), GOODBYE_S)
        except TimeoutError:
            process.kill()
            await process.wait()
