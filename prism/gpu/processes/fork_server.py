"""The worker's end of the fork server: starting it, asking it for ranks, hearing of them, ending it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator

from prism.gpu.processes.birth import Birth, FromZygote
from prism.net.frames import Unpacker, pack
from prism.net.messages import Program

END_S = 1.0
"""How long the fork server has to kill its ranks and end; then it is killed, and the kernel ends them."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",  # one heap a rank: several double what a small rank takes
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # whether there is a GPU is told without CUDA, which no fork survives
    "PYTHONHASHSEED": "0",  # the same order of sets in every run of the same program
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # its pool of processes does not survive a fork
}
READ_BY_TORCH = ("TORCH", "PYTORCH", "OMP_", "MKL_", "KMP_", "GOMP_", "CUDA_", "NCCL_", "PYTHON", "MALLOC_", "LD_")
"""How variables begin that torch, its libraries or the interpreter may read when they are loaded."""


class ForkServer:
    """A running fork server; it has imported what `program` preloads, with the program's environment."""

    def __init__(self, program: Program, process: asyncio.subprocess.Process, line: socket.socket) -> None:
        self._program = program
        self._process = process
        self._line = line
        self._writer: asyncio.StreamWriter | None = None

    @classmethod
    async def start(cls, program: Program) -> ForkServer:
        """Start one; its first message says that it is ready, or why it is not.

        With -P: torchrun's programs do not find the working directory on their path either.
        """
        ours, theirs = socket.socketpair()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "prism.gpu.processes.zygote", str(theirs.fileno()), *program.preload,
            pass_fds=[theirs.fileno()], env={**os.environ, **ENVIRONMENT, **_seen_by_imports(program)},
        )  # fmt: skip
        theirs.close()
        return cls(program, process, ours)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def serves(self, program: Program) -> bool:
        """Whether its ranks can run this program too: all it has imported is the same, in the same environment."""
        return (program.preload, _seen_by_imports(program)) == (
            self._program.preload,
            _seen_by_imports(self._program),
        )

    async def messages(self) -> AsyncIterator[FromZygote]:
        """What it says, until it ends."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._line)
        frames: Unpacker[FromZygote] = Unpacker(FromZygote)
        with contextlib.suppress(ConnectionError):  # it was killed before it had read all that it was told
            while data := await reader.read(1 << 16):
                for message in frames.feed(data):
                    yield message

    def fork(self, birth: Birth) -> None:
        """Ask for a rank."""
        assert self._writer is not None, "ranks are asked for once the fork server has said that it is ready"
        self._writer.write(pack(birth))

    async def end(self) -> None:
        """End it, and with it every rank that is left."""
        if self._writer is not None:
            self._writer.close()
        else:
            self._line.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):  # it has gone in this moment
                self._process.kill()
            await self._process.wait()


def _seen_by_imports(program: Program) -> dict[str, str]:
    """The program's variables that what is imported before the fork may read; ranks get them all."""
    if program.preload:
        return program.env
    return {name: value for name, value in program.env.items() if name.startswith(READ_BY_TORCH)}
