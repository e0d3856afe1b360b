"""The processes of one host's ranks, and of its assistants: forked, connected, stopped, killed, and known to be gone.

Assistants are numbered downwards from -1.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Protocol

from prism.core.events import AnyEvent, Probed, Suspended
from prism.core.instructions import AnyInstruction, Kill, Probe, Resume, Suspend
from prism.gpu.processes import proc
from prism.gpu.processes.birth import Birth, Born, Failed, Gone, Introduction, Ready, Unborn
from prism.gpu.processes.fork_server import ForkServer
from prism.gpu.rank.rank_line import RankLine
from prism.net.messages import Program

ACCEPT_S = 0.05
"""How long a connection that has been made may take until it is heard of."""
POLL_S = 0.0005
"""How often the kernel is asked about a process that is being stopped; there is nothing to wait on for that."""
GONE_S = 10.0
"""How long a killed process may take to be gone; only a kernel that waits for a device takes longer than a moment."""


class Owner(Protocol):
    """Who is told of them."""

    def report(self, event: AnyEvent) -> None:
        """A rank did something, or something was seen of it."""

    def connected(self, introduction: Introduction) -> None:
        """A process has connected; told before anything that it says."""

    def gone(self, rank: int, code: int) -> None:
        """A process has ended; all that it said was told."""

    def ready(self) -> None:
        """Processes may be asked for."""

    def broken(self, reason: str, traceback: str = "") -> None:
        """None can be; with a traceback it is the program's fault: its preload raised."""


class RankProcesses:
    """Those that were asked for, by rank; `socket` is where they connect to."""

    def __init__(self, owner: Owner, socket: Path) -> None:
        self.socket = socket
        self.lines: dict[int, RankLine] = {}
        self._owner = owner
        self._pids: dict[int, int] = {}
        self._due: set[int] = set()  # asked for, and not known to be gone
        self._suspended: set[int] = set()  # stopped on purpose
        self._fork_server: ForkServer | None = None
        self._ready = False  # whether it has imported all that it should
        self._hearing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def listen(self) -> asyncio.AbstractServer:
        """Let them connect; returns what is to be closed in the end."""
        server = await self._loop.create_unix_server(lambda: RankLine(self), path=str(self.socket))
        os.chmod(self.socket, 0o600)
        return server

    def serves(self, program: Program) -> bool:
        """Whether the program's ranks can be forked as things are."""
        return self._fork_server is not None and self._ready and self._fork_server.serves(program)

    async def start(self, program: Program) -> None:
        """Start a fork server for the program, in place of the one there is; the owner is told when it is ready."""
        await self.end()
        self._hear_from(await ForkServer.start(program))

    def fork(self, birth: Birth) -> None:
        """Ask for one; none comes of a fork server that has ended, which the owner is told."""
        if self._ready and self._fork_server is not None:
            self._due.add(birth.rank)
            self._fork_server.fork(birth)

    def running(self) -> dict[str, int]:
        """The processes that nobody here has stopped, by name."""
        named = {name_of(rank): pid for rank, pid in self._pids.items() if rank not in self._suspended}
        if self._fork_server is not None:
            named["the fork server of the ranks"] = self._fork_server.pid
        return named

    def obey(self, instruction: AnyInstruction) -> None:
        """Carry out an instruction about a process; one that has gone needs none, its end is on the way."""
        pid = self._pids.get(instruction.rank)
        if pid is None:
            return
        match instruction:
            case Suspend(rank=rank):
                self._suspended.add(rank)
                proc.stop(pid)
                self._loop.create_task(self._confirm_stop(rank, pid))
            case Resume(rank=rank):
                self._suspended.discard(rank)
                proc.go_on(pid)
            case Probe(rank=rank):
                self._owner.report(Probed(rank=rank, waiting=proc.is_waiting(pid)))
            case Kill():
                proc.kill_all(pid)

    async def dismiss(self) -> bool:
        """End all that are left, born or not; returns whether they have gone, or the fork server does not say so."""
        give_up, killed = self._loop.time() + GONE_S, set[int]()
        while self._due and self._loop.time() < give_up:  # each is forgotten elsewhere
            for rank in (self._due & self._pids.keys()) - killed:
                proc.kill_all(self._pids[rank])
                killed.add(rank)
            await asyncio.sleep(POLL_S)
        return not self._due

    async def end(self) -> None:
        """End the fork server, and with it all others."""
        fork_server, self._fork_server = self._fork_server, None
        if fork_server is None:
            return
        if self._hearing is not None:
            self._hearing.cancel()
        self._bury()
        await fork_server.end()

    # -- what is heard -----------------------------------------------------------------------------------------------

    def introduce(self, introduction: Introduction, line: RankLine) -> None:
        """A process has connected."""
        if introduction.rank not in self._due:  # it was killed before its connection was taken, or is to end now
            line.close()
            return
        self.lines[introduction.rank] = line
        self._pids[introduction.rank] = introduction.pid
        self._owner.connected(introduction)

    def report(self, event: AnyEvent) -> None:
        """A rank says something."""
        self._owner.report(event)

    def garbled(self, rank: int | None, what: str) -> None:
        """A rank, or somebody who has not said which, says what nobody understands."""
        name = "an unknown process" if rank is None else name_of(rank)
        self._owner.broken(f"{name} says what is no message, which its program may have written there: {what}")

    def _hear_from(self, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self._hearing = asyncio.ensure_future(self._hear(fork_server))

    async def _hear(self, fork_server: ForkServer) -> None:
        async for message in fork_server.messages():
            match message:
                case Born(rank=rank, pid=pid):
                    self._pids[rank] = pid
                case Unborn(rank=rank, reason=reason):
                    self._due.discard(rank)
                    self._owner.broken(f"{name_of(rank)} cannot be started: {reason}")
                case Gone(rank=rank, code=code):
                    await self._forget(rank, code)
                case Ready():
                    self._ready = True
                    self._owner.ready()
                case Failed(reason=reason, traceback=traceback):
                    self._owner.broken(reason, traceback)
                    return
        self._bury()
        self._owner.broken("the fork server of the ranks has ended")

    async def _forget(self, rank: int, code: int) -> None:
        if rank not in self.lines:  # it may have said all in a moment, and its connection still waits to be taken
            await asyncio.sleep(ACCEPT_S)
        await self._drain(rank)
        self._due.discard(rank)
        self._suspended.discard(rank)
        self._pids.pop(rank, None)
        line = self.lines.pop(rank, None)
        if line is not None:
            line.close()
        self._owner.gone(rank, code)

    async def _confirm_stop(self, rank: int, pid: int) -> None:
        """Report Suspended once the process is stopped and all that it said is read."""
        while proc.is_running(pid):  # noqa: ASYNC110 no event tells
            await asyncio.sleep(POLL_S)
        await self._drain(rank)
        if self._pids.get(rank) == pid:  # it may have gone, and another stage's have come
            self._owner.report(Suspended(rank=rank))

    async def _drain(self, rank: int) -> None:
        """Return when nothing that the rank has said is left in its socket."""
        line = self.lines.get(rank)
        while line is not None and line.unread():  # noqa: ASYNC110 no event tells
            await asyncio.sleep(POLL_S)

    def _bury(self) -> None:
        """All end with the fork server."""
        for pid in self._pids.values():
            proc.kill_all(pid)
        for line in self.lines.values():
            line.close()
        self._pids.clear()
        self.lines.clear()
        self._due.clear()
        self._suspended.clear()
        self._ready = False


def name_of(rank: int) -> str:
    """What a process is called where people are told of it."""
    return f"rank {rank}" if rank >= 0 else f"assistant {-1 - rank}"
