"""Every fault of the wire ends in the right result, or in a word about it: nothing hangs, nothing is made up."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import msgspec
import pytest

from prism.net import memory
from prism.net.channel import Channel, Codec, Hub
from prism.net.numbered import Malformed
from prism.net.transport import ConnectionClosed, UnknownPeer
from tests.net.faulty import FAULTS, Fault, FaultyListener


class Add(msgspec.Struct, tag=True, frozen=True):
    number: int


class Sum(msgspec.Struct, tag=True, frozen=True):
    number: int


class Alive(msgspec.Struct, tag=True, frozen=True):
    pass


STEPS = 6
UP, DOWN = Codec[Sum | Alive, Add | Alive](Sum | Alive), Codec[Add | Alive, Sum | Alive](Add | Alive)


async def adds(channel: Channel[Add | Alive, Sum | Alive]) -> str:
    """A worker: says the sum of all numbers so far for each that it gets; returns why it ended."""
    total = 0
    try:
        async with channel:
            while True:
                message = await channel.recv()
                if isinstance(message, Add):
                    total += message.number
                    channel.send(Sum(total))
                else:
                    channel.send(Alive())
    except (Malformed, ConnectionClosed) as error:
        return str(error)


async def job(hub: Hub[Sum | Alive, Add | Alive], faulty: FaultyListener, at: int, fault: Fault, way: str) -> list[int]:
    """A coordinator: gives out STEPS numbers, with a fault from one of them on, and goes on until the worker has ended;
    returns the sums that came."""
    sums: list[int] = []
    beating = asyncio.ensure_future(beats(hub))
    try:
        while True:
            if len(sums) == at:
                (faulty.coming if way == "coming" else faulty.going).fault = fault
            if len(sums) < STEPS:
                with contextlib.suppress(UnknownPeer):  # its end is about to be received
                    hub.send("w", Add(1))
            elif fault == "delay":
                faulty.inner.drop("w", "the job is done")
            message: Sum | Alive | None = Alive()
            while isinstance(message, Alive):
                _, message = await hub.recv()
            if message is None:
                return sums
            sums.append(message.number)
    finally:
        beating.cancel()


async def beats(hub: Hub[Sum | Alive, Add | Alive]) -> None:
    with contextlib.suppress(UnknownPeer):
        while True:
            await asyncio.sleep(0)
            hub.send("w", Alive())


@pytest.fixture
async def faulty(guard: None) -> AsyncIterator[FaultyListener]:
    async with FaultyListener(memory.MemoryListener()) as listener:
        yield listener


@pytest.mark.parametrize("way", ["coming", "going"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found_out_or_changes_nothing(faulty: FaultyListener, fault: Fault, way: str) -> None:
    assert isinstance(faulty.inner, memory.MemoryListener)
    for at in range(STEPS):
        hub = Hub(faulty, UP)
        adding = asyncio.ensure_future(adds(Channel(await memory.connect(faulty.inner, "w"), DOWN)))
        sums = await job(hub, faulty, at, fault, way)
        told = await adding
        assert sums == list(range(1, len(sums) + 1)), "no sum is wrong, none is missing, and none comes twice"
        if fault == "delay":
            assert (len(sums), told) == (STEPS, "the job is done")
        else:
            assert re.search(r"part \d+ was awaited|are no part|does not decode", told), told
            assert way == "going" or hub.fault("w") == told


async def test_what_was_lost_is_told_on_the_side_that_missed_it(faulty: FaultyListener) -> None:
    assert isinstance(faulty.inner, memory.MemoryListener)
    hub = Hub(faulty, UP)
    adding = asyncio.ensure_future(adds(Channel(await memory.connect(faulty.inner, "w"), DOWN)))
    faulty.coming.fault = "drop"
    hub.send("w", Add(1))
    hub.send("w", Alive())
    assert await hub.recv() == ("w", None)
    assert hub.fault("w") == "part 0 was awaited, and part 1 came"
    assert await adding == "part 0 was awaited, and part 1 came"
