"""A transport over another one, on which messages are lost, late, doubled, out of order or cut, one at a time.

What a fault leads to is defined: a message that is late changes nothing; any other fault is found out by the next
message in its direction at the latest, and ends the connection with a word about it (prism.net.numbered).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Literal, get_args

from prism.net.transport import ConnectionClosed, Listener, UnknownPeer

Fault = Literal["drop", "delay", "duplicate", "reorder", "truncate"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
LATE_S = 0.05


class Wire:
    """One direction: what goes in comes out, but for one fault."""

    def __init__(self) -> None:
        self.fault: Fault | None = None  # of the next message
        self._held: bytes | None = None

    def passed(self, data: bytes) -> list[bytes]:
        """What arrives of a message that is sent, and with it; a late one is for the caller to wait for."""
        fault, self.fault = self.fault, None
        held, self._held = self._held, None
        after = [] if held is None else [held]
        match fault:
            case "drop":
                return after
            case "duplicate":
                return [data, data, *after]
            case "truncate":
                return [data[: len(data) // 2], *after]
            case "reorder":
                self._held = data
                return after
            case _:
                return [data, *after]


class FaultyListener(Listener):
    """A listener whose messages pass faulty wires, both ways."""

    def __init__(self, inner: Listener) -> None:
        self.inner = inner
        self.coming, self.going = Wire(), Wire()
        self._arrived: deque[tuple[str, bytes]] = deque()
        self._late: deque[tuple[str, bytes]] = deque()

    @property
    def address(self) -> str:
        return self.inner.address

    async def recv(self) -> tuple[str, bytes | None]:
        while not self._arrived:
            peer, data = await self.inner.recv()
            if data is None:
                return peer, None
            if self.coming.fault == "delay":
                await asyncio.sleep(LATE_S)
            self._arrived.extend((peer, part) for part in self.coming.passed(data))
        return self._arrived.popleft()

    def send(self, peer: str, data: bytes) -> None:
        late = self.going.fault == "delay"
        parts = [(peer, part) for part in self.going.passed(data)]
        if late:
            asyncio.get_running_loop().call_later(LATE_S, self._send_late)
        if late or self._late:  # what is said after it is not earlier for that
            self._late.extend(parts)
            return
        for part in parts:
            self.inner.send(*part)

    def drop(self, peer: str, reason: str) -> None:
        self.inner.drop(peer, reason)

    async def close(self) -> None:
        await self.inner.close()

    def _send_late(self) -> None:
        with contextlib.suppress(UnknownPeer, ConnectionClosed):
            while self._late:
                self.inner.send(*self._late.popleft())
