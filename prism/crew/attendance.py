"""The attendance of a run's workers: they are started, come, are heard, and counted as lost when they go silent."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from types import UnionType
from typing import Self

import msgspec

from prism.crew.member import GOODBYE_S, Member
from prism.errors import PreloadError, RunError
from prism.exhaustion import room_in
from prism.gpu.processes import proc
from prism.gpu.processes.limits import NO_PROCESS, no_process
from prism.net.channel import Codec, Hub
from prism.net.keys import make_keys
from prism.net.launchers import Launcher, Meeting, Started
from prism.net.messages import Alive, Broken, FromCoordinator, FromWorker, Goodbye, Hello
from prism.net.pulse import BEAT_S, BEATS_MISSED, beat
from prism.net.scratch import SHARED_MEMORY, make_scratch, remove_scratch
from prism.net.transport import ConnectionClosed, UnknownPeer
from prism.net.zeromq import ZmqListener


class Lost(RunError):
    """A worker has gone, or does not answer any more."""


class Attendance:
    """An async context manager: inside, all workers are connected; `scratch` is a private directory in memory.

    `say` hears what the user has to do before they are. A worker that is lost raises Lost, once; the others stay.
    """

    def __init__(self, launcher: Launcher, say: Callable[[str], None]) -> None:
        with room_in(SHARED_MEMORY):
            self.scratch = make_scratch()
        self.started: list[Started] = []
        self.members: dict[str, Member] = {}  # in the order of their names, once all are there
        self._launcher = launcher
        self._say = say
        self._complete = False
        self._hub: Hub[FromWorker, FromCoordinator] | None = None
        self._heard: asyncio.Queue[tuple[str, FromWorker | Lost]] = asyncio.Queue()
        self._lost: Lost | None = None  # the last one
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            with room_in(self.scratch):
                await self._start()
            await self._assemble()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for member in self.members.values():
            member.leave()
        try:
            for name in self.members:
                self.tell(name, Goodbye())
            await asyncio.gather(*map(_end, self.started))
            if self._hub is not None:
                await self._hub.close()
            await self._launcher.end()
        finally:
            remove_scratch(self.scratch)

    def tell(self, name: str, message: FromCoordinator) -> None:
        """Say something to one; that it has gone is found out elsewhere."""
        assert self._hub is not None, "a crew is used inside `async with`"
        with contextlib.suppress(UnknownPeer, ConnectionClosed):  # this crew may have been left before
            self._hub.send(name, message)

    async def expect(self, kind: type[FromWorker] | UnionType, over: bool = False) -> tuple[str, FromWorker]:
        """The next message of a kind, and whose; raises Lost, or RunError if one (unless `over`) says it is broken."""
        while True:
            if self._lost is not None and not self.members:
                raise self._lost
            name, message = await self._heard.get()
            match message:
                case Lost():
                    if not over or not self.members:
                        raise message
                case Broken(reason=reason, traceback=traceback) if not over:
                    raise PreloadError(reason, traceback) if traceback else RunError(f"{name}: {reason}")
                case _ if isinstance(message, kind):
                    return name, message

    async def all_say(self, kind: type[FromWorker], over: bool = False) -> None:
        """Return once all workers have said it; raises as `expect`."""
        said: set[str] = set()
        while not said >= self.members.keys() or not self.members:
            name, _ = await self.expect(kind, over)
            said.add(name)

    def lost_with(self, name: str) -> str:
        """What a worker takes with it, in words."""
        return ""

    # -- coming ------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        keys, worker_keys = make_keys()
        self._hub = Hub(ZmqListener(keys, await self._launcher.open()), Codec(FromWorker))
        meeting = Meeting(self._hub.address, worker_keys, self.scratch)
        try:
            self.started += await self._launcher.start(meeting)
        except OSError as error:
            if error.errno not in NO_PROCESS:
                raise
            raise RunError(f"no worker can be started: {no_process(error)}") from error
        self._tasks = [asyncio.create_task(self._listen(self._hub))]
        self._tasks += [asyncio.create_task(work(one)) for one in self.started for work in (self._watch, self._miss)]
        self._tasks.append(asyncio.create_task(beat(self._beat)))

    async def _assemble(self) -> None:
        assert self._hub is not None, "a crew is assembled once it has started"
        if told := self._launcher.told(self._hub.address):
            self._say(f"waiting for {self._launcher.workers} workers; {told}")
        try:
            async with asyncio.timeout(self._launcher.wait_s):
                while len(self.members) < self._launcher.workers:
                    await self.expect(Hello)
        except TimeoutError:
            raise RunError(self._absent(self._hub.address)) from None
        self.members = dict(sorted(self.members.items(), key=lambda item: natural(item[0])))
        self._complete = True

    def _absent(self, address: str) -> str:
        came = f" ({', '.join(self.members)})" if self.members else ""
        count = f"{len(self.members)} of {self._launcher.workers} workers have come{came}"
        return f"{count} in {self._launcher.wait_s:.0f} s to {address}; {self._launcher.late(address)}"

    def _join(self, hello: Hello) -> None:
        started = next((one for one in self.started if one.name == hello.worker), None)
        self.members[hello.worker] = Member(hello, started, self._lose)
        self._heard.put_nowait((hello.worker, hello))

    # -- hearing -----------------------------------------------------------------------------------------------------

    async def _listen(self, hub: Hub[FromWorker, FromCoordinator]) -> None:
        while True:
            try:
                name, message = await hub.recv()
            except ConnectionClosed:  # this crew has ended
                return
            member = self.members.get(name)
            if member is None:
                if isinstance(message, Hello) and not self._complete and len(self.members) < self._launcher.workers:
                    self._join(msgspec.structs.replace(message, worker=name))
                elif message is not None:  # one too many, or one that was taken for lost
                    self.tell(name, Goodbye())
                continue
            member.felt()
            if message is None:
                member.hung_up(hub.fault(name))
            elif not isinstance(message, Alive):
                self._heard.put_nowait((name, message))

    def _beat(self) -> None:
        for name in self.members:
            self.tell(name, Alive())

    async def _miss(self, started: Started) -> None:
        """Until it has said its first word nobody else would miss a worker that is stopped."""
        looks = 0
        while started.pid is not None and started.name not in self.members:
            await asyncio.sleep(BEAT_S)
            looks = looks + 1 if proc.is_stopped(started.pid) else 0
            if looks == BEATS_MISSED:
                self._lose(started.name, "it has been stopped by a signal, and does not go on")
                started.kill()
                return

    async def _watch(self, started: Started) -> None:
        how = await started.ended()
        self._lose(started.name, f"({how}); its output above may say why")

    def _lose(self, name: str, how: str) -> None:
        """A worker is lost; its ranks with it."""
        member = self.members.pop(name, None)
        if member is None and self._complete:
            return  # that is known
        if member is not None:
            member.leave()
        self._lost = Lost(f"{name} was lost{' ' if how.startswith('(') else ': '}{how}{self.lost_with(name)}")
        self._heard.put_nowait((name, self._lost))


async def _end(started: Started) -> None:
    """Let a worker go, which has been told to."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(started.ended(), GOODBYE_S)
        return
    started.kill()
    await started.ended()


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which worker-10 comes after worker-9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
