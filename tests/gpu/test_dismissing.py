"""A worker dismisses a stage: whatever was asked for is gone before it says so, even what was still being born."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

from prism.core.instructions import Launch
from prism.gpu.birth import Birth, Born, Gone, Unborn
from prism.gpu.worker import Worker
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
