"""The worker: between the coordinator and the rank processes of one host.

It owns no rule. Reports go up as they come from the ranks, instructions go down to them; those about processes (launch,
stop, look, kill) it carries out itself, through the fork server and the kernel. When the coordinator goes away, so does
everything below.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
import termios
from pathlib import Path
from typing import cast

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
from prism.gpu.birth import Birth, Born, Failed, FromZygote, Gone, Introduction, Ready, die_with_parent
from prism.net.channel import Channel, Codec
from prism.net.frames import Unpacker, pack
from prism.net.keys import WorkerKeys
from prism.net.messages import Broken, FromCoordinator, FromWorker, Goodbye, Hello, Order, Prepared, Report, Setup
from prism.net.transport import ConnectionClosed
from prism.net.zeromq import connect

ZYGOTE_S = 1.0
"""How long the fork server has to kill its ranks and end; then it is killed, and the kernel ends them."""
POLL_S = 0.0005
"""How often the kernel is asked about a process that it is about to stop; there is nothing to wait on for that."""
WAITING_CALLS = frozenset({202, 7, 271, 45, 47, 23, 270, 232, 281, 0})
"""x86-64 system calls in which a thread waits for others: futex, (p)poll, recv*, (p)select, epoll_*wait, read."""


class RankLine(asyncio.Protocol):
    """The socket of one rank: frames in, frames out."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._frames: Unpacker[AnyEvent | Introduction] = Unpacker(AnyEvent | Introduction)
        self._rank = -1
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own class is none of asyncio's

    def data_received(self, data: bytes) -> None:
        for event in self._frames.feed(data):
            if isinstance(event, Introduction):
                self._rank = event.rank
                self._worker.introduce(event, self)
            elif event.rank == self._rank:
                self._worker.report(event)

    def unread(self) -> bool:
        """Whether the kernel still holds bytes that the rank has sent."""
        if self.transport is None or self.transport.is_closing():
            return False
        count = array.array("i", [0])
        try:
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.FIONREAD, count)
        except OSError:
            return False
        return count[0] > 0

    def send(self, instruction: AnyInstruction) -> None:
        """Pass an instruction on; one for a rank that has left is dropped, its Exited is on the way."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(pack(instruction))


class Worker:
    """One host's worker; `directory` is private to the run."""

    def __init__(self, name: str, channel: Channel[FromCoordinator, FromWorker], directory: Path) -> None:
        self._name = name
        self._channel = channel
        self._socket = directory / f"{name}.sock"
        self._lines: dict[int, RankLine] = {}
        self._early: dict[int, list[AnyInstruction]] = {}  # said before the rank has introduced itself
        self._pids: dict[int, int] = {}
        self._setup: Setup | None = None
        self._stage = 0
        self._torch = ""
        self._imported: tuple[tuple[str, ...], dict[str, str]] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._zygote: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
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
            await self._end_zygote()

    # -- ranks -------------------------------------------------------------------------------------------------------

    def introduce(self, introduction: Introduction, line: RankLine) -> None:
        """A rank's process has connected; told here, so that nothing it says can come before."""
        rank = introduction.rank
        self._lines[rank] = line
        self._pids[rank] = introduction.pid
        self.report(Launched(rank=rank, pid=introduction.pid))
        for instruction in self._early.pop(rank, []):
            line.send(instruction)

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
            case Suspend():
                self._signal(rank, signal.SIGSTOP)
                self._loop.create_task(self._confirm_stop(rank))
            case Resume():
                self._signal(rank, signal.SIGCONT)
            case Probe() if rank in self._pids:
                self.report(Probed(rank=rank, waiting=_is_waiting(self._pids[rank])))
            case Probe():
                pass  # the rank has gone, and its Exited has been told
            case Kill():
                self._kill(rank)
            case _ if rank in self._lines:
                self._lines[rank].send(instruction)
            case _:
                self._early.setdefault(rank, []).append(instruction)

    def _launch(self, rank: int) -> None:
        assert self._setup is not None
        assert self._zygote is not None
        birth = Birth(rank=rank, stage=f"s{self._stage}", socket=str(self._socket), setup=self._setup)
        self._zygote.sendall(pack(birth))

    def _kill(self, rank: int) -> None:
        pid = self._pids.get(rank)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def _signal(self, rank: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, KeyError):
            os.kill(self._pids[rank], number)

    async def _confirm_stop(self, rank: int) -> None:
        """Report Suspended once the process is stopped and all that it said is read."""
        while rank in self._pids and _state(self._pids[rank]) not in ("T", "Z", ""):  # noqa: ASYNC110 no event tells
            await asyncio.sleep(POLL_S)
        await self._drain(rank)
        if rank in self._pids:
            self.report(Suspended(rank=rank))

    async def _drain(self, rank: int) -> None:
        """Return when nothing that the rank has said is left in its socket."""
        line = self._lines.get(rank)
        while line is not None and line.unread():  # noqa: ASYNC110 no event tells
            await asyncio.sleep(POLL_S)

    # -- the fork server ---------------------------------------------------------------------------------------------

    async def _set_up(self, setup: Setup) -> None:
        """Begin a stage; the fork server stays if what it has imported serves this program too."""
        self._setup = setup
        self._stage += 1
        wanted = (setup.program.preload, setup.program.env if setup.program.preload else {})
        if wanted == self._imported and self._torch:
            self._channel.send(Prepared(torch=self._torch))
            return
        await self._end_zygote()
        self._imported = wanted
        await self._start_zygote(setup)
        self._reading = asyncio.ensure_future(self._read_zygote())

    async def _start_zygote(self, setup: Setup) -> None:
        ours, theirs = socket.socketpair()
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "1",  # one heap a rank: several double what a small rank takes
            "PYTHONHASHSEED": "0",  # the same order of sets in every run of the same program
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # its pool of processes does not survive a fork
            **setup.program.env,
        }
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "prism.gpu.zygote", str(theirs.fileno()), *setup.program.preload,
            pass_fds=[theirs.fileno()], env=environment,
        )  # fmt: skip
        theirs.close()
        self._zygote = ours

    async def _read_zygote(self) -> None:
        assert self._zygote is not None
        frames: Unpacker[FromZygote] = Unpacker(FromZygote)
        reader, _ = await asyncio.open_unix_connection(sock=self._zygote)
        while data := await reader.read(1 << 16):
            for message in frames.feed(data):
                match message:
                    case Born(rank=rank, pid=pid):
                        self._pids[rank] = pid
                    case Gone(rank=rank, code=code):
                        await self._forget(rank, code)
                    case Ready(torch=version):
                        self._torch = version
                        self._channel.send(Prepared(torch=version))
                    case Failed(reason=reason):
                        self._channel.send(Broken(reason=reason, blame=True))
                        return
        self._channel.send(Broken(reason="the fork server of the ranks has ended"))

    async def _forget(self, rank: int, code: int) -> None:
        await self._drain(rank)
        self._pids.pop(rank, None)
        self._early.pop(rank, None)
        line = self._lines.pop(rank, None)
        if line is not None and line.transport is not None:
            line.transport.close()
        self.report(Exited(rank=rank, code=code))

    async def _end_zygote(self) -> None:
        """End the fork server, and with it every rank that is left."""
        if self._zygote is None or self._process is None:
            return
        if self._reading is not None:
            self._reading.cancel()
        for rank in list(self._pids):
            self._kill(rank)
        self._zygote.shutdown(socket.SHUT_RDWR)
        self._zygote.close()
        try:
            await asyncio.wait_for(self._process.wait(), ZYGOTE_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._torch = ""


def _is_waiting(pid: int) -> bool:
    """Whether the main thread of the process sleeps in a call that waits for others."""
    try:
        number = Path(f"/proc/{pid}/task/{pid}/syscall").read_text().split()[0]
    except OSError:
        return False
    return number.isdigit() and int(number) in WAITING_CALLS


def _state(pid: int) -> str:
    """The process's state letter in /proc; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


async def serve(name: str, address: str, keys: Path) -> None:
    """Connect to the coordinator and serve it."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(serve(options.name, options.coordinator, options.keys))


if __name__ == "__main__":
    main()
