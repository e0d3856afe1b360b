"""Attendance: workers that come from elsewhere are admitted, heard as one, and counted as lost when they hang up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from prism.core.events import Marked
from prism.core.instructions import Run
from prism.crew import Crew, Lost
from prism.errors import RunError
from prism.net.channel import Channel, Codec
from prism.net.keys import WorkerKeys
from prism.net.launchers.external import ExternalLauncher
from prism.net.messages import (
    Dismiss,
    Dismissed,
    FromCoordinator,
    FromWorker,
    Goodbye,
    Hello,
    Order,
    Prepared,
    Printed,
    Program,
    Report,
    Setup,
)
from prism.net.zeromq import connect


class Worker:
    """A worker that only talks."""

    def __init__(self, channel: Channel[FromCoordinator, FromWorker]) -> None:
        self.channel = channel

    @classmethod
    async def come(cls, address: str, token: Path, name: str) -> Worker:
        connection = await connect(address, name, WorkerKeys.load(token))
        worker = cls(Channel[FromCoordinator, FromWorker](connection, Codec(FromCoordinator)))
        worker.channel.send(Hello(worker=name, pid=1, host=f"host-of-{name}", ferry=f"tcp://{name}:1"))
        return worker

    async def hear(self, kind: type[FromCoordinator]) -> FromCoordinator:
        while not isinstance(message := await self.channel.recv(), kind):
            pass
        return message


class Meeting:
    """A crew that waits for workers, and where they find it."""

    def __init__(self, folder: Path, workers: int, wait_s: float = 60.0) -> None:
        self.token = folder / "token"
        self._said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        launcher = ExternalLauncher(workers, "tcp://127.0.0.1:*", self.token, wait_s)
        self.crew = Crew(launcher, self._said.set_result)
        self.entering = asyncio.ensure_future(self.crew.__aenter__())

    async def come(self, name: str) -> Worker:
        address = (await self._said).partition("--coordinator ")[2].split()[0]
        return await Worker.come(address, self.token, name)


def setup(folder: Path) -> Setup:
    return Setup(
        program=Program(script="train.py"), world_size=2, running=2, ranks_per_node=1, semantics="gloo",
        payloads=str(folder), logs=str(folder),
    )  # fmt: skip


async def test_workers_that_do_not_come_are_told_with_how_they_are_started(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"0 of 2 workers have come in 0 s to .*; start each with .*launcher\.wait"):
        await Meeting(tmp_path, workers=2, wait_s=0.01).entering


async def test_a_crew_that_was_not_complete_can_be_left_again(tmp_path: Path) -> None:
    meeting = Meeting(tmp_path, workers=2)
    worker = await meeting.come("w-1")
    while not meeting.crew.members:  # noqa: ASYNC110 no event tells
        await asyncio.sleep(0)
    meeting.entering.cancel()
    await worker.hear(Goodbye)
    await asyncio.gather(meeting.entering, worker.channel.close(), return_exceptions=True)
    await meeting.crew.__aexit__()
    assert not meeting.crew.scratch.exists()


async def test_workers_from_elsewhere_are_as_one_until_one_hangs_up(tmp_path: Path) -> None:
    meeting = Meeting(tmp_path, workers=2)
    second, first = await meeting.come("w-10"), await meeting.come("w-9")
    crew = await meeting.entering
    try:
        assert list(crew.members) == ["w-9", "w-10"]
        late = await meeting.come("late")
        await late.hear(Goodbye)

        preparing = asyncio.ensure_future(crew.prepare(setup(tmp_path), {0: 0, 1: 1}))
        for worker, other in ((first, "w-10"), (second, "w-9")):
            got = await worker.hear(Setup)
            assert isinstance(got, Setup)
            assert got.ferries == {other: f"tcp://{other}:1"}
            assert (tmp_path / got.marker).exists()
            worker.channel.send(Prepared())
        await preparing

        crew.order([Run(rank=1), Run(rank=0)])
        assert await first.hear(Order) == Order(instructions=(Run(rank=0),))
        assert await second.hear(Order) == Order(instructions=(Run(rank=1),))
        second.channel.send(Report(events=(Marked(rank=1),)))
        assert await crew.events() == (Marked(rank=1),)

        await second.channel.close()
        with pytest.raises(Lost, match=r"w-10 was lost: .*on host-of-w-10.*; lost with it: what ranks 1 had done"):
            await crew.events()
        dismissing = asyncio.ensure_future(crew.dismiss())
        await first.hear(Dismiss)
        first.channel.send(Printed(file="0.log", at=0, data=b"what it printed"))
        first.channel.send(Dismissed())
        await dismissing
        assert (tmp_path / "0.log").read_bytes() == b"what it printed"
        assert list(crew.members) == ["w-9"]
    finally:
        await asyncio.gather(crew.__aexit__(), first.channel.close(), late.channel.close())
    assert not meeting.token.exists()
