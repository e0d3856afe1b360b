"""Workers on the coordinator's own host: its children, which the kernel ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from prism.net.launchers import Meeting, Started

COME_S = 60.0
"""How long an interpreter may take to start on a busy machine."""


@dataclass
class LocalWorker:
    """A child process."""

    name: str
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int | None:
        """Its process."""
        return self.process.pid

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self.process.returncode is not None

    async def ended(self) -> str:
        """Its exit code, or minus the signal."""
        return str(await self.process.wait())

    def kill(self) -> None:
        """End it; its ranks go with it."""
        with contextlib.suppress(ProcessLookupError):  # it has gone in this moment
            self.process.kill()


class LocalLauncher:
    """Starts processes; several of them are as hosts of their own, and reach each other over the loopback device."""

    wait_s = COME_S

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    async def open(self) -> str:
        """At the loopback device."""
        return "tcp://127.0.0.1:*"

    async def start(self, meeting: Meeting) -> Sequence[Started]:
        """Start them; a Ctrl-C on the terminal does not reach them."""
        path = str(meeting.keys.save(meeting.scratch))
        started: list[Started] = []
        try:
            for number in range(self.workers):
                worker = await self._start(f"worker-{number}", path, meeting)
                started.append(worker)
        except BaseException:
            for one in started:  # nobody else knows of them
                one.kill()
            raise
        return started

    def told(self, address: str) -> str:
        """Nothing: they come by themselves."""
        return ""

    def late(self, address: str) -> str:
        """Nothing but the machine keeps them."""
        return "the machine may be too busy, and their output above may say more"

    async def end(self) -> None:
        """Nothing is left: the keys lie in the run's private directory."""

    async def _start(self, name: str, keys: str, meeting: Meeting) -> LocalWorker:
        directory = meeting.scratch / name if self.workers > 1 else meeting.scratch
        directory.mkdir(mode=0o700, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "prism.gpu.worker", "--coordinator", meeting.address, "--keys", keys,
            "--name", name, "--directory", str(directory), *(["--alone"] if self.workers == 1 else []),
            stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        return LocalWorker(name, process)
