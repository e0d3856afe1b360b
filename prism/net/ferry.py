"""The ferry of a host: serves its payloads to other hosts, and brings theirs where a rank here needs them.

It is a thread of the worker with a loop of its own, so that moving bytes never holds up what coordinator and ranks say
to each other. Ferries talk to each other directly, with the keys of the run; no tensor passes through the coordinator.
A copy that was brought belongs to all ranks here that use it at one time, and its room is used again after the last.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from prism.core.calls import Ref
from prism.errors import RunError
from prism.net.channel import Channel, Codec, Hub
from prism.net.keys import WorkerKeys
from prism.net.passing import Passing
from prism.net.payloads import CHUNK, Library
from prism.net.peer import Chunk, Fetch, Missing, NotThere, Peer
from prism.net.transport import ConnectionClosed, UnknownPeer
from prism.net.zeromq import ZmqListener, connect


@dataclass(frozen=True)
class _Stage:
    """Where payloads of this host lie, and where copies of others go."""

    library: Library
    room: Passing


@dataclass
class _Copy:
    """A payload of another host that is on its way, or here; `users`: how many need it."""

    bringing: asyncio.Task[Ref]
    users: int = 0


class Ferry:
    """The ferry of worker `name`, which listens at `host`; its methods are called from any other thread."""

    def __init__(self, name: str, host: str, keys: WorkerKeys) -> None:
        self._name = name
        self._listening, self._dialling = keys.among_workers()
        self._addresses: dict[str, str] = {}
        self._peers: dict[str, asyncio.Task[Peer]] = {}
        self._copies: dict[Ref, _Copy] = {}
        self._stage: _Stage | None = None
        self._serving: asyncio.Task[None] | None = None
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="prism-ferry", daemon=True)
        self._thread.start()
        self.address = self._do(self._listen(f"tcp://{host}:*"))

    def begin(self, addresses: Mapping[str, str], directories: Sequence[Path], room: Passing) -> None:
        """A stage begins: where the ferries of the others are, where payloads of this host lie, where copies go."""
        self._do(self._begin(dict(addresses), _Stage(Library(*directories), room)))

    def bring(self, payloads: Sequence[Ref]) -> concurrent.futures.Future[list[Ref]]:
        """Copies of payloads of other hosts, or what is here itself; raises NotThere, or that the host is lost."""
        return asyncio.run_coroutine_threadsafe(self._bring(payloads), self._loop)

    def release(self, payloads: Sequence[Ref]) -> None:
        """One that payloads were brought for does not need its copies any more."""
        self._loop.call_soon_threadsafe(self._release, payloads)

    def close(self) -> None:
        """Hang up, and end the thread."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # -- on the ferry's own thread -----------------------------------------------------------------------------------

    async def _listen(self, address: str) -> str:
        hub: Hub[Fetch, Chunk | Missing] = Hub(ZmqListener(self._listening, address), Codec(Fetch))
        self._serving = asyncio.ensure_future(self._serve(hub))
        return hub.address

    async def _serve(self, hub: Hub[Fetch, Chunk | Missing]) -> None:
        try:
            while True:
                peer, wanted = await hub.recv()
                if wanted is not None:
                    try:
                        hub.send(peer, answer(wanted, None if self._stage is None else self._stage.library))
                    except ConnectionClosed:
                        return
                    except UnknownPeer:
                        pass  # it has left since
        finally:
            await hub.close()

    async def _begin(self, addresses: dict[str, str], stage: _Stage) -> None:
        bringing = [copy.bringing for copy in self._copies.values()]
        self._copies.clear()
        for one in bringing:
            one.cancel()
        await asyncio.gather(*bringing, return_exceptions=True)  # they write to what is closed now
        if self._stage is not None:
            self._stage.library.close()
            self._stage.room.close()
        self._stage = stage
        moved = [name for name, address in self._addresses.items() if addresses.get(name) != address]
        self._addresses = addresses
        for name in moved:
            await self._hang_up(name)

    async def _bring(self, payloads: Sequence[Ref]) -> list[Ref]:
        return list(await asyncio.gather(*map(self._copy, payloads)))

    async def _copy(self, payload: Ref) -> Ref:
        copy = self._copies.get(payload)
        if copy is None:
            copy = self._copies[payload] = _Copy(asyncio.ensure_future(self._pull(payload)))
        copy.users += 1
        return await asyncio.shield(copy.bringing)

    async def _pull(self, payload: Ref) -> Ref:
        """Where a payload is: on the host that made it, or, if that has gone, in a folder that all share."""
        assert self._stage is not None, "payloads are brought in a stage"
        if payload.host not in self._addresses:
            try:
                self._stage.library.descriptor(payload)
            except OSError as error:
                raise NotThere(f"{payload.host} is not among the workers, and {error}; capture again") from None
            return payload
        arena = self._stage.room.arena(payload.nbytes)
        copy = arena.reserve(payload.nbytes)
        peer = await self._peer(payload.host)
        await peer.pull(payload, lambda at, data: arena.write(copy.part(at, len(data)), [data]))
        return copy

    def _release(self, payloads: Sequence[Ref]) -> None:
        for payload in payloads:
            copy = self._copies.get(payload)
            if copy is None or self._stage is None:
                continue  # of a stage that is over
            copy.users -= 1
            if not copy.users:
                del self._copies[payload]
                copy.bringing.add_done_callback(functools.partial(self._give_back, payload, self._stage.room))

    def _give_back(self, payload: Ref, room: Passing, bringing: asyncio.Task[Ref]) -> None:
        if not bringing.cancelled() and bringing.exception() is None and bringing.result() is not payload:
            room.release(bringing.result())

    async def _peer(self, name: str) -> Peer:
        dialling = self._peers.get(name)
        if dialling is None or (dialling.done() and dialling.exception() is not None):
            dialling = self._peers[name] = asyncio.ensure_future(self._dial(name))
        return await asyncio.shield(dialling)

    async def _dial(self, name: str) -> Peer:
        connection = await connect(self._addresses[name], self._name, self._dialling)
        return Peer(name, Channel(connection, Codec(Chunk | Missing)))

    async def _hang_up(self, name: str) -> None:
        dialling = self._peers.pop(name, None)
        if dialling is not None and dialling.done() and not dialling.cancelled() and not dialling.exception():
            await dialling.result().close()

    async def _end(self) -> None:
        for name in list(self._peers):
            await self._hang_up(name)
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)


def answer(wanted: Fetch, library: Library | None) -> Chunk | Missing:
    """What another host's ferry gets that wants a chunk; `library`: payloads of this host, None outside stages."""
    payload = wanted.payload
    if library is None or "/" in payload.file or not 0 <= payload.nbytes <= CHUNK or payload.offset < 0:
        return Missing(wanted.number, f"{payload} is no chunk of a payload")
    try:
        data = os.pread(library.descriptor(payload), payload.nbytes, payload.offset)
    except (OSError, RunError, ValueError, OverflowError) as error:  # no such name, no such place in a file
        return Missing(wanted.number, str(error))
    if len(data) < payload.nbytes:
        return Missing(wanted.number, f"{payload.file} ends inside a payload")
    return Chunk(wanted.number, data)
