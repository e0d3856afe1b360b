"""What a worker's processes do, and what of it the coordinator is told."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

from prism.core.events import AnyEvent, Broke, Exited, Finished, Launched
from prism.core.instructions import AnyInstruction
from prism.core.stage.phrases import exited
from prism.gpu.processes import proc
from prism.gpu.processes.abroad import Abroad
from prism.gpu.processes.birth import Birth, Introduction
from prism.gpu.processes.limits import full
from prism.gpu.processes.rank_processes import RankProcesses, name_of
from prism.gpu.processes.room import Rooms
from prism.gpu.processes.stage_files import StageFiles
from prism.gpu.processes.vitals import Vitals
from prism.net.channel import Channel
from prism.net.ferry import Ferry
from prism.net.messages import Alive, Broken, FromCoordinator, FromWorker, Prepared, Report, Setup
from prism.net.schedule import FIFOS
from prism.net.transport import ConnectionClosed


class Reporting:
    """For worker `name`; `directory` is private to it. With a `ferry` it is one of several."""

    def __init__(
        self, name: str, channel: Channel[FromCoordinator, FromWorker], directory: Path, ferry: Ferry | None = None
    ) -> None:
        self._name = name
        self._channel = channel
        self._directory = directory
        self._abroad = None if ferry is None else Abroad(name, directory, ferry, self._pass_on, self.broken)
        self._processes = RankProcesses(self, directory / "worker.sock")
        self._files = StageFiles(directory)
        self._launched: dict[int, None] = {}  # in this stage
        self._finished: set[int] = set()  # of those, whose programs have ended as they should
        self._rooms = Rooms(self.report, self._launched.__contains__)
        self._vitals = Vitals()
        self._setup: Setup | None = None  # None between stages
        self._stage = 0
        self._events: list[AnyEvent] = []
        self._loop = asyncio.get_running_loop()

    def _launch(self, rank: int) -> None:
        assert self._setup is not None
        self._launched[rank] = None
        socket = str(self._processes.socket)
        stage = f"{self._name}.s{self._stage}"  # names of files begin with it: see Ref.host
        self._processes.fork(Birth(rank=rank, stage=stage, socket=socket, setup=self._setup))

    def _pass_on(self, instruction: AnyInstruction) -> None:
        """Tell a rank; if it has gone, its Exited is on the way, and nothing is said before it is Launched."""
        line = self._processes.lines.get(instruction.rank)
        if line is not None:
            line.send(instruction)

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
        if isinstance(event, Broke) and event.rank < 0:  # no rank, so no world knows it
            self.broken(f"{name_of(event.rank)}: {event.reason}")
            return
        if isinstance(event, Finished) and event.code == 0:
            self._finished.add(event.rank)
        if self._abroad is not None:
            self._abroad.hear(event)
        if not self._events:
            self._loop.call_soon(self._flush)
        self._events.append(event)

    def gone(self, rank: int, code: int) -> None:
        """A process has ended."""
        lost = f"{name_of(rank)} {exited(code)}; its log may say why"
        if code == -signal.SIGBUS and self._setup is not None and (reason := full(self._directory)):
            lost = f"{reason}; {name_of(rank)} was killed by SIGBUS for it"
            self.broken(lost)
        if code or rank not in self._finished:
            self.call_off(lost)
        if rank >= 0:
            self.report(Exited(rank=rank, code=code))
        elif rank in self._assistants():
            self.broken(lost)

    def call_off(self, reason: str) -> None:
        """What others of an emulation wait for in the engine never comes: all of them end, and tell this reason.

        An engine cannot tell a peer that is late from one that is lost. Whoever hears of all ends can, so this is here.
        """
        if self._setup is None or self._setup.emulation is None:
            return
        from prism.gpu.pruned import abort  # it is not built everywhere

        with contextlib.suppress(OSError):  # the directory has gone, and with it all who would wait
            abort(Path(self._setup.emulation.directory) / FIFOS, reason)

    def broken(self, reason: str, traceback: str = "") -> None:
        """The stage cannot go on; where there is none, the next one begins anew."""
        if self._setup is not None:
            self._channel.send(Broken(reason=reason, traceback=traceback))

    def _assistants(self) -> list[int]:
        """The assistants of the stage that are here: on one host, one for each sandbox rank of an emulation."""
        if self._setup is None or self._setup.emulation is None:
            return []
        if self._setup.spread is not None and self._abroad is not None:
            return self._abroad.assistants(self._setup)
        return [-1 - number for number in range(len(self._setup.emulation.sandbox))]

    def _flush(self) -> None:
        events, self._events = self._events, []
        with contextlib.suppress(ConnectionClosed):
            self._channel.send(Report(events=tuple(events)))

    def _beat(self) -> None:
        """Say that all is well, or what is not."""
        with contextlib.suppress(ConnectionClosed):
            self._channel.send(Alive())
            running = self._processes.running()
            if stopped := self._vitals.look(running):
                has, goes = ("has", "does") if len(stopped) == 1 else ("have", "do")
                self.broken(f"{' and '.join(stopped)} {has} been stopped by a signal, and {goes} not go on")
                for name in stopped:
                    proc.kill(running[name])
