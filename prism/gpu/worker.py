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

from prism.core.events import (
    AnyEvent,
    AnyInstruction,
    Exited,
    Kill,
    Launch,
    Launched,
    Probe,
    Probed,
    Resume,
    Suspend,
    Suspended,
)
from prism.gpu import processes
from prism.gpu.birth import Birth, Born, Failed, Gone, Introduction, Ready, die_with_parent
from prism.gpu.fork_server import ForkServer
from prism.gpu.rank_line import RankLine
from prism.net.channel import Channel, Codec
from prism.net.keys import WorkerKeys
from prism.net.messages import Broken, FromCoordinator, FromWorker, Goodbye, Hello, Order, Prepared, Report, Setup
from prism.net.scratch import remove_scratch
from prism.net.transport import ConnectionClosed
from prism.net.zeromq import connect

ACCEPT_S = 0.05
"""How long a connection that has been made may take until it is heard of."""
POLL_S = 0.0005
"""How often the kernel is asked about a process that is being stopped; there is nothing to wait on for that."""


class Worker:
    """One host's worker; `directory` is private to the run."""

    def __init__(self, name: str, channel: Channel[FromCoordinator, FromWorker], directory: Path) -> None:
        self._name = name
        self._channel = channel
        self._socket = directory / f"{name}.sock"
        self._lines: dict[int, RankLine] = {}
        self._pids: dict[int, int] = {}
        self._setup: Setup | None = None
        self._stage = 0
        self._ready = False  # whether the fork server has imported all that it should
        self._fork_server: ForkServer | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._events: list[AnyEvent] = []
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Serve until the coordinator says goodbye or goes away."""
        server = await self._loop.create_unix_server(lambda: RankLine(self), path=str(self._socket))
        os.chmod(self._socket, 0o600)
        try:
            self._channel.send(Hello(worker=self._name, pid=os.getpid()))
            while True:
                match await self._channel.recv():
                    case Setup() as setup:
                        await self._set_up(setup)
                    case Order(instructions=instructions):
                        for instruction in instructions:
                            self._obey(instruction)
                    case Goodbye():
                        return
        except ConnectionClosed:
            return
        finally:
            server.close()
            await self._end_fork_server()

    # -- ranks -------------------------------------------------------------------------------------------------------

    def introduce(self, introduction: Introduction, line: RankLine) -> None:
        """A rank's process has connected; told here, so that nothing it says can come before."""
        rank = introduction.rank
        self._lines[rank] = line
        self._pids[rank] = introduction.pid
        if rank >= 0:
            self.report(Launched(rank=rank, pid=introduction.pid))
        elif set(self._assistants()) <= self._lines.keys():
            self._channel.send(Prepared())

    def report(self, event: AnyEvent) -> None:
        """Tell the coordinator, together with whatever else comes in the same turn of the loop."""
        if not self._events:
            self._loop.call_soon(self._flush)
        self._events.append(event)

    def _flush(self) -> None:
        events, self._events = self._events, []
        with contextlib.suppress(ConnectionClosed):
            self._channel.send(Report(events=tuple(events)))

    def _obey(self, instruction: AnyInstruction) -> None:
        rank = instruction.rank
        match instruction:
            case Launch():
                self._launch(rank)
            case Suspend() | Resume() | Probe() | Kill():
                pid = self._pids.get(rank)
                if pid is not None:  # else the rank has gone, and its Exited is on the way
                    self._handle_process(instruction, pid)
            case _ if rank in self._lines:
                self._lines[rank].send(instruction)
            case _:
                pass  # the rank has gone, and its Exited is on the way; nothing is said before it is Launched

    def _handle_process(self, instruction: AnyInstruction, pid: int) -> None:
        match instruction:
            case Suspend(rank=rank):
                processes.stop(pid)
                self._loop.create_task(self._confirm_stop(rank, pid))
            case Resume():
                processes.go_on(pid)
            case Probe(rank=rank):
                self.report(Probed(rank=rank, waiting=processes.is_waiting(pid)))
            case Kill():
                processes.kill_all(pid)

    def _launch(self, rank: int) -> None:
        assert self._setup is not None
        assert self._fork_server is not None
        birth = Birth(rank=rank, stage=f"s{self._stage}", socket=str(self._socket), setup=self._setup)
        self._fork_server.fork(birth)

    async def _confirm_stop(self, rank: int, pid: int) -> None:
        """Report Suspended once the process is stopped and all that it said is read."""
        while processes.is_running(pid):  # noqa: ASYNC110 no event tells
            await asyncio.sleep(POLL_S)
        await self._drain(rank)
        if rank in self._pids:
            self.report(Suspended(rank=rank))

    async def _drain(self, rank: int) -> None:
        """Return when nothing that the rank has said is left in its socket."""
        line = self._lines.get(rank)
        while line is not None and line.unread():  # noqa: ASYNC110 no event tells
            await asyncio.sleep(POLL_S)

    async def _forget(self, rank: int, code: int) -> None:
        """A rank's process has ended."""
        if rank not in self._lines:  # it may have said all in a moment, and its connection still waits to be taken
            await asyncio.sleep(ACCEPT_S)
        await self._drain(rank)
        self._pids.pop(rank, None)
        line = self._lines.pop(rank, None)
        if line is not None:
            line.close()
        if rank >= 0:
            self.report(Exited(rank=rank, code=code))
        elif rank in self._assistants():
            self._channel.send(Broken(reason=f"assistant {-1 - rank} was lost ({code}); its log may say why"))

    # -- assistants: numbered downwards from -1 ----------------------------------------------------------------------

    def _assistants(self) -> list[int]:
        """Those of the stage: one for each sandbox rank of an emulation."""
        emulation = self._setup.emulation if self._setup is not None else None
        return [-1 - number for number in range(len(emulation.sandbox))] if emulation is not None else []

    def _begin(self) -> None:
        """Say that the stage may begin, once its assistants are there."""
        for assistant in self._assistants():
            self._launch(assistant)
        if not self._assistants():
            self._channel.send(Prepared())

    async def _dismiss(self) -> None:
        """The stage is over: its assistants go, and have gone before others come in their places."""
        assistants, self._setup = self._assistants(), None
        for assistant in assistants:
            if assistant in self._pids:
                processes.kill_all(self._pids[assistant])
        while not self._pids.keys().isdisjoint(assistants):  # noqa: ASYNC110 each is forgotten elsewhere
            await asyncio.sleep(POLL_S)

    # -- the fork server ---------------------------------------------------------------------------------------------

    async def _set_up(self, setup: Setup) -> None:
        """Begin a stage; the fork server stays if what it has imported serves this program too."""
        await self._dismiss()
        self._setup = setup
        self._stage += 1
        if self._fork_server is not None and self._ready and self._fork_server.serves(setup.program):
            self._begin()
            return
        await self._end_fork_server()
        self._fork_server = await ForkServer.start(setup.program)
        self._hearing = asyncio.ensure_future(self._hear(self._fork_server))

    async def _hear(self, fork_server: ForkServer) -> None:
        async for message in fork_server.messages():
            match message:
                case Born(rank=rank, pid=pid):
                    self._pids[rank] = pid
                case Gone(rank=rank, code=code):
                    await self._forget(rank, code)
                case Ready():
                    self._ready = True
                    self._begin()
                case Failed(reason=reason):
                    self._channel.send(Broken(reason=reason, blame=True))
                    return
        self._channel.send(Broken(reason="the fork server of the ranks has ended"))

    async def _end_fork_server(self) -> None:
        if self._fork_server is None:
            return
        if self._hearing is not None:
            self._hearing.cancel()
        for pid in self._pids.values():
            processes.kill_all(pid)
        await self._fork_server.end()
        for line in self._lines.values():
            line.close()
        self._pids.clear()
        self._lines.clear()
        self._fork_server, self._ready = None, False


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
