"""The fork server's line to its worker, with a socket in its place."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from prism.gpu.processes.birth import Birth, Ready
from prism.gpu.processes.fork_server import ForkServer
from prism.net.frames import pack
from prism.net.messages import Program, Setup


async def test_one_that_is_killed_before_it_has_read_all_has_ended(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    fork_server = ForkServer(Program(), await asyncio.create_subprocess_exec("true"), ours)
    messages = fork_server.messages()
    theirs.sendall(pack(Ready()))
    assert await anext(messages) == Ready()
    setup = Setup(
        program=Program(), world_size=1, running=1, ranks_per_node=1, semantics="gloo",
        payloads=str(tmp_path), logs=str(tmp_path),
    )  # fmt: skip
    fork_server.fork(Birth(rank=0, stage="capture", socket="", setup=setup))
    theirs.close()  # with what was not read: the kernel says that the connection was reset
    assert [message async for message in messages] == []
    await fork_server.end()
