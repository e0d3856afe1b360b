"""A worker dismisses a stage: whatever was asked for is gone before it says so, even what was still being born."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prism.core.calls import Ref
from prism.core.events import AnyEvent, Broke
from prism.core.graph import OpKind
from prism.core.instructions import AnyInstruction, Fold, Launch
from prism.gpu.processes.birth import Birth, Born, Gone, Introduction, Unborn
from prism.gpu.processes.fork_server import ForkServer
from prism.gpu.rank.line import Line
from prism.gpu.rank.rank_line import RankLine
from prism.gpu.worker import Worker
from prism.net.frames import Unpacker, pack
from prism.net.messages import Broken, Dismiss, Dismissed, Goodbye, Order, Program, Report, Setup


class Coordinator:
    """What the worker hears, and what it has said."""

    def __init__(self, *messages: Any) -> None:
        self.messages = list(messages)
        self.said: list[Any] = []

    async def recv(self) -> Any:
        return self.messages.pop(0)

    def send(self, message: Any) -> None:
        self.said.append(message)


class Births:
    """A fork server that says what is put into it, until that is None."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.asked: list[int] = []
        self.pid = 0

    async def messages(self) -> Any:
        while message := await self.queue.get():
            yield message

    def fork(self, birth: Birth) -> None:
        self.asked.append(birth.rank)

    async def end(self) -> None:
        pass


SETUP = Setup(program=Program(), world_size=8, running=8, ranks_per_node=8, semantics="auto", payloads="", logs="")


def sleeping() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], process_group=0)


async def test_who_is_born_late_is_killed_too(tmp_path: Path) -> None:
    coordinator, births = Coordinator(Dismiss(), Goodbye()), Births()
    worker = Worker("w", coordinator, tmp_path)  # type: ignore[arg-type]
    worker._processes._due = {3, -1}
    worker._processes._hear_from(births)  # type: ignore[arg-type]
    processes = {rank: sleeping() for rank in (3, -1)}

    async def live() -> None:
        for rank, process in processes.items():
            await asyncio.sleep(0.01)
            births.queue.put_nowait(Born(rank, process.pid))
            code = await asyncio.to_thread(process.wait)
            births.queue.put_nowait(Gone(rank, code))

    await asyncio.gather(worker.run(), live())
    said = [message for message in coordinator.said if isinstance(message, Report | Dismissed | Broken)]
    assert said[-1] == Dismissed(), "the end of rank 3 was reported before, that of the assistant is no news"
    assert {process.returncode for process in processes.values()} == {-9}


def at_work(tmp_path: Path, coordinator: Coordinator, births: Births) -> Worker:
    """A worker in the middle of a stage."""
    worker = Worker("w", coordinator, tmp_path)  # type: ignore[arg-type]
    worker._setup = SETUP
    worker._processes._hear_from(births)  # type: ignore[arg-type]
    worker._processes._ready = True
    return worker


async def test_nobody_is_waited_for_who_is_asked_of_a_fork_server_that_has_ended(tmp_path: Path) -> None:
    coordinator, births = Coordinator(Order(instructions=(Launch(rank=3),)), Dismiss(), Goodbye()), Births()
    worker = at_work(tmp_path, coordinator, births)
    births.queue.put_nowait(None)
    await worker._processes._hearing
    assert coordinator.said == [Broken(reason="the fork server of the ranks has ended")]
    await worker.run()
    assert not births.asked
    assert coordinator.said[-1] == Dismissed()


async def test_a_process_that_cannot_be_made_ends_the_stage_with_the_reason(tmp_path: Path) -> None:
    coordinator, births = Coordinator(Dismiss(), Goodbye()), Births()
    worker = at_work(tmp_path, coordinator, births)
    worker._obey(Launch(rank=3))
    births.queue.put_nowait(Unborn(3, "no more processes"))
    births.queue.put_nowait(None)
    await worker._processes._hearing
    assert coordinator.said[0] == Broken(reason="rank 3 cannot be started: no more processes")
    await worker.run()
    assert coordinator.said[-1] == Dismissed()


async def test_a_fork_server_that_cannot_be_started_ends_the_stage_and_not_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(program: Program) -> ForkServer:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(ForkServer, "start", start)
    paths = {name: str(tmp_path / name) for name in ("payloads", "logs")}
    coordinator = Coordinator(msgspec.structs.replace(SETUP, **paths), Dismiss(), Goodbye())
    await Worker("w", coordinator, tmp_path).run()  # type: ignore[arg-type]
    (told,) = (message for message in coordinator.said if isinstance(message, Broken))
    assert told.reason.startswith("the fork server of the ranks cannot be started: Resource temporarily unavailable; ")
    assert "`ulimit -u`" in told.reason
    assert coordinator.said[-1] == Dismissed()


async def test_an_assistant_that_has_no_room_says_so(tmp_path: Path) -> None:
    worker = at_work(tmp_path, coordinator := Coordinator(), Births())
    worker.report(Broke(rank=-2, reason="no room"))
    assert coordinator.said == [Broken(reason="assistant 1: no room")]
    worker._processes._hearing.cancel()


async def test_a_rank_that_says_what_is_no_message_is_told_by_name(tmp_path: Path) -> None:
    worker = at_work(tmp_path, coordinator := Coordinator(), Births())
    worker._processes._due = {3}
    line = RankLine(worker._processes)
    line.data_received(pack(Introduction(rank=3, pid=os.getpid())))
    line.data_received(b"\x05\x00\x00\x00hello")
    (told,) = (message for message in coordinator.said if isinstance(message, Broken))
    assert told.reason.startswith(
        "rank 3 says what is no message, which its program may have written there: a frame of"
    )
    worker._processes._hearing.cancel()


def test_a_rank_that_is_told_what_is_no_message_says_so_before_it_ends() -> None:
    ours, theirs = socket.socketpair()
    rank = os.fork()
    if rank == 0:
        ours.close()
        Line(3, theirs)._read()
    theirs.close()
    ours.sendall(b"\x05\x00\x00\x00hello")
    (told,) = Unpacker[AnyEvent](AnyEvent).feed(ours.recv(4096))
    assert isinstance(told, Broke)
    assert told.reason.startswith("what it was told is lost: ProtocolError: a frame of 5 bytes is no message")
    assert os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) == 1
    ours.close()


def test_the_routes_of_a_wide_operation_fit_into_a_frame() -> None:
    """A folded all_to_all of 8,192 members of which 256 run: metadata of more than 64 MiB."""
    routes = tuple(tuple(Ref("worker-0.s1-17-4711-input", 1 << 30, 1 << 20) for _ in range(8192)) for _ in range(256))
    fold = Fold(rank=0, op=1, kind=OpKind.ALL_TO_ALL, dtype="float32", reduce="none", root=-1, inputs=(), routes=routes)
    data = pack(fold)
    assert len(data) > 64 << 20
    frames, found = Unpacker[AnyInstruction](AnyInstruction), []
    for at in range(0, len(data), 1 << 20):
        found += frames.feed(data[at : at + (1 << 20)])
    assert found == [fold]
