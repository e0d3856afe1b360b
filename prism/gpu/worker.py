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
import signal
import socket
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from prism.core.instructions import AnyInstruction, Deliver, Fold, Kill, Launch, Probe, Resume, Room, Suspend
from prism.errors import PrismError, ProtocolError, RunError
from prism.gpu.processes import proc
from prism.gpu.processes.birth import die_with_parent, go_on_without_parent
from prism.gpu.processes.enlisting import arguments, enlisted
from prism.gpu.processes.limits import allow_files, no_process, too_few_files
from prism.gpu.processes.reporting import Reporting
from prism.gpu.processes.room import room_socket
from prism.gpu.processes.stage_files import missing
from prism.net.messages import (
    AskTime,
    Broken,
    Dismiss,
    Dismissed,
    FromCoordinator,
    Goodbye,
    Hello,
    Laid,
    Order,
    Setup,
    Time,
)
from prism.net.pulse import beat
from prism.net.scratch import is_orphaned, make_scratch, remove_orphaned
from prism.net.transport import ConnectionClosed


class Worker(Reporting):
    """One host's worker: what the coordinator says to it, and what it does then."""

    async def run(self) -> None:
        """Serve until the coordinator says goodbye or goes away."""
        server = await self._processes.listen()
        asking = await self._loop.create_unix_server(self._rooms.line, path=str(room_socket(self._processes.socket)))
        os.chmod(room_socket(self._processes.socket), 0o600)
        beating = asyncio.ensure_future(beat(self._beat))
        try:
            self._say_hello()
            while await self._hear(await self._channel.recv()):
                pass
        except ConnectionClosed:
            return
        except ProtocolError as error:
            with contextlib.suppress(ConnectionClosed):
                self._channel.send(Broken(reason=f"what the coordinator says does not arrive as it is sent: {error}"))
            raise
        finally:
            beating.cancel()
            server.close()
            asking.close()
            await self._processes.end()
            if self._abroad is not None:
                self._abroad.close()

    async def _hear(self, message: FromCoordinator) -> bool:
        """Do what the coordinator says; false when the run is over."""
        match message:
            case Setup() as setup:
                await self._set_up(setup)
            case Order(instructions=instructions):
                for instruction in instructions:
                    self._obey(instruction)
            case Dismiss():
                await self._dismiss()
                self._tell_what_is_left()
                self._channel.send(Dismissed())
            case Laid() as piece if self._abroad is not None:
                self._abroad.laid(piece)
            case AskTime():
                self._channel.send(Time(now=time.monotonic_ns()))
        return not isinstance(message, Goodbye)

    def _say_hello(self) -> None:
        hello = Hello(worker=self._name, pid=os.getpid(), host=socket.gethostname())
        if self._abroad is not None:
            hello = msgspec.structs.replace(hello, ferry=self._abroad.ferry.address, gateway=self._abroad.gateway)
        self._channel.send(hello)

    async def _set_up(self, setup: Setup) -> None:
        """Begin a stage; the fork server stays if what it has imported serves this program too."""
        if not await self._dismiss():
            await self._processes.end()
        if reason := too_few_files(setup.running) or proc.unknown_machine() or missing(setup):
            self._channel.send(Broken(reason=reason))
            return
        self._stage += 1
        self._launched.clear()
        self._finished.clear()
        try:
            self._setup = await self._lay_out(setup)
        except RunError as error:
            self._channel.send(Broken(reason=str(error)))
            return
        if self._processes.serves(setup.program):
            self.ready()
            return
        try:
            await self._processes.start(setup.program)
        except OSError as error:
            self.broken(f"the fork server of the ranks cannot be started: {no_process(error)}")

    async def _lay_out(self, setup: Setup) -> Setup:
        """Make room for a stage. Raises RunError."""
        laid = self._files.lay_out(setup)
        if self._abroad is None:
            return laid
        self._abroad.lay_out(laid, self._stage)
        return await self._abroad.begin(laid)

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
                if isinstance(instruction, Kill):
                    self.call_off("the run has ended; its summary says why")
                self._processes.obey(instruction)
            case Room(granted=granted):
                self._rooms.answer(rank, granted)
            case Deliver() | Fold() if self._abroad is not None:
                self._abroad.take(instruction)
            case _:
                self._pass_on(instruction)

    def _tell_what_is_left(self) -> None:
        """Send what a stage leaves on this host alone."""
        for printed in self._files.printed(self._launched):
            self._channel.send(printed)
        for piece in self._abroad.end() if self._abroad is not None else ():
            self._channel.send(piece)


async def serve(options: argparse.Namespace, directory: Path) -> None:
    """Connect to the coordinator and serve it."""
    task = asyncio.current_task()
    assert task is not None
    # Who started this worker has died, or wants it to end.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        async with enlisted(options) as (name, channel, ferry):
            await Worker(name, channel, directory, ferry).run()


def main() -> int:
    """`python -m prism.gpu.worker --coordinator ADDRESS --token-file FILE [--name NAME]`; returns the exit code."""
    options = arguments(__doc__.partition("\n")[0])
    if options.directory is not None:
        die_with_parent(signal.SIGTERM)
        go_on_without_parent()
    allow_files()  # a rank reads a file of every other rank
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directory = options.directory or make_scratch()
    try:
        if options.directory is None or not is_orphaned(options.token_file.parent):  # else nobody waits for it any more
            uvloop.run(serve(options, directory))
    except PrismError as error:
        print(f"worker: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        for private in (directory, options.token_file.parent):  # others may use what the coordinator has made
            remove_orphaned(private)
    return 0


if __name__ == "__main__":
    sys.exit(main())
