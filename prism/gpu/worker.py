"""The worker: between the coordinator and the rank processes of one host.

It owns no rule. Reports go up as they come from the ranks, instructions go down to them; those about processes (launch,
stop, look, kill) it carries out itself, through the fork server and the kernel. When the coordinator goes away, so does
everything below.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import signal
from pathlib import Path

import uvloop

from prism.core.events import AnyEvent, Exited, Launched
from prism.core.instructions import AnyInstruction, Kill, Launch, Probe, Resume, Room, Suspend
from prism.gpu import processes
from prism.gpu.birth import Birth, Introduction, die_with_parent
from prism.gpu.limits import full, too_few_files
from prism.gpu.rank_processes import RankProcesses, name_of
from prism.gpu.room import Rooms, room_socket
from prism.gpu.vitals import Vitals
from prism.net.channel import Channel, Codec
from prism.net.keys import WorkerKeys
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
from prism.net.pulse import beat
from prism.net.scratch import remove_scratch
from prism.net.transport import ConnectionClosed
from prism.net.zeromq import connect


class Worker:
    """One host's worker; `directory` is private to the run."""

    def __init__(self, name: str, channel: Channel[FromCoordinator, FromWorker], directory: Path) -> None:
        self._name = name
        self._channel = channel
        self._directory = directory
        self._processes = RankProcesses(self, directory / f"{name}.sock")
        self._rooms = Rooms(self.report)
        self._vitals = Vitals()
        self._setup: Setup | None = None  # None between stages
        self._stage = 0
        self._events: list[AnyEvent] = []
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Serve until the coordinator says goodbye or goes away."""
        server = await self._processes.listen()
        asking = await self._loop.create_unix_server(self._rooms.line, path=str(room_socket(self._processes.socket)))
        beating = asyncio.ensure_future(beat(self._beat))
        try:
            self._channel.send(Hello(worker=self._name, pid=os.getpid()))
            while True:
                match await self._channel.recv():
                    case Setup() as setup:
                        await self._set_up(setup)
                    case Order(instructions=instructions):
                        for instruction in instructions:
                            self._obey(instruction)
                    case Dismiss():
                        await self._dismiss()
                        self._channel.send(Dismissed())
                    case Goodbye():
                        return
        except ConnectionClosed:
            return
        finally:
            beating.cancel()
            server.close()
            asking.close()
            await self._processes.end()

    # -- what the coordinator says -----------------------------------------------------------------------------------

    async def _set_up(self, setup: Setup) -> None:
        """Begin a stage; the fork server stays if what it has imported serves this program too."""
        if not await self._dismiss():
            await self._processes.end()
        if reason := too_few_files(setup.running):
            self._channel.send(Broken(reason=reason))
            return
        self._setup = setup
        self._stage += 1
        if self._processes.serves(setup.program):
            self.ready()
        else:
            await self._processes.start(setup.program)

    async def _dismiss(self) -> bool:
        """The stage is over: what is left of it goes before others come in its place; returns whether it has."""
        self._setup = None
        return await self._processes.dismiss()

    def _obey(self, instruction: AnyInstruction) -> None:
        rank = instruction.rank
        match instruction:
            case Launch():
                self._launch(rank)
            case Suspend() | Resume() | Probe() | Kill():
                self._processes.obey(instruction)
            case Room(granted=granted):
                self._rooms.answer(rank, granted)
            case _ if rank in self._processes.lines:
                self._processes.lines[rank].send(instruction)
            case _:
                pass  # the rank has gone, and its Exited is on the way; nothing is said before it is Launched

    def _launch(self, rank: int) -> None:
        assert self._setup is not None
        socket = str(self._processes.socket)
        self._processes.fork(Birth(rank=rank, stage=f"s{self._stage}", socket=socket, setup=self._setup))

    # -- what the processes do ---------------------------------------------------------------------------------------

    def ready(self) -> None:
        """The stage may begin once its assistants are there."""
        if self._setup is None:
            return  # it was dismissed meanwhile
        for assistant in self._assistants():
            self._launch(assistant)
        if not self._assistants():
            self._channel.send(Prepared())

    def connected(self, introduction: Introduction) -> None:
        """A rank is there, or the last assistant."""
        if introduction.rank >= 0:
            self.report(Launched(rank=introduction.rank, pid=introduction.pid))
        elif self._setup is not None and set(self._assistants()) <= self._processes.lines.keys():
            self._channel.send(Prepared())

    def report(self, event: AnyEvent) -> None:
        """Tell the coordinator, together with whatever else comes in the same turn of the loop."""
        if not self._events:
            self._loop.call_soon(self._flush)
        self._events.append(event)

    def gone(self, rank: int, code: int) -> None:
        """A process has ended."""
        if code == -signal.SIGBUS and self._setup is not None and (reason := full(self._directory)):
            self.broken(f"{reason}; rank {rank} was killed by SIGBUS for it")
        if rank >= 0:
            self.report(Exited(rank=rank, code=code))
        elif rank in self._assistants():
            self.broken(f"{name_of(rank)} was lost ({code}); its log may say why")

    def broken(self, reason: str, blame: bool = False) -> None:
        """The stage cannot go on; where there is none, the next one begins anew."""
        if self._setup is not None:
            self._channel.send(Broken(reason=reason, blame=blame))

    def _assistants(self) -> list[int]:
        """The assistants of the stage: one for each sandbox rank of an emulation."""
        emulation = self._setup.emulation if self._setup is not None else None
        return [-1 - number for number in range(len(emulation.sandbox))] if emulation is not None else []

    def _flush(self) -> None:
        events, self._events = self._events, []
        with contextlib.suppress(ConnectionClosed):
            self._channel.send(Report(events=tuple(events)))

    def _beat(self) -> None:
        """Say that all is well, or what is not."""
        with contextlib.suppress(ConnectionClosed):
            self._channel.send(Alive())
            unstoppable = self._processes.unstoppable()
            if stopped := self._vitals.look(unstoppable):
                self.broken(f"{stopped} has been stopped by a signal, and does not go on")
                processes.kill(unstoppable[stopped])


async def serve(name: str, address: str, keys: Path) -> None:
    """Connect to the coordinator and serve it."""
    task = asyncio.current_task()
    assert task is not None
    # The kernel's word that the coordinator has died.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await _serve(name, address, keys)
    except asyncio.CancelledError:
        pass
    finally:
        remove_scratch(keys.parent)  # the coordinator may not be there to do it


async def _serve(name: str, address: str, keys: Path) -> None:
    connection = await connect(address, name, WorkerKeys.load(keys))
    async with Channel[FromCoordinator, FromWorker](connection, Codec(FromCoordinator)) as channel:
        await Worker(name, channel, keys.parent).run()


def main() -> None:
    """`python -m prism.gpu.worker --coordinator ADDRESS --keys FILE [--name NAME]`."""
    parser = argparse.ArgumentParser(prog="python -m prism.gpu.worker", description=__doc__.partition("\n")[0])
    parser.add_argument("--coordinator", required=True, help="address of the coordinator, tcp://host:port")
    parser.add_argument("--keys", required=True, type=Path, help="the key file that the coordinator wrote")
    parser.add_argument("--name", default="worker-0", help="the worker's name in the run")
    options = parser.parse_args()
    die_with_parent(signal.SIGTERM)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a rank reads a file of every other rank
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(serve(options.name, options.coordinator, options.keys))


if __name__ == "__main__":
    main()
