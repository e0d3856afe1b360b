"""How a worker comes to its run: what it is called, where others reach it, and patience with a coordinator to come."""

from __future__ import annotations

import argparse
import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from prism.errors import RunError
from prism.net.channel import Channel, Codec
from prism.net.ferry import Ferry
from prism.net.keys import WorkerKeys
from prism.net.messages import FromCoordinator, FromWorker
from prism.net.transport import Connection, IdentityTaken
from prism.net.zeromq import connect

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_-]")  # names of files begin with a worker's, up to a dot
_ADDRESS = re.compile(r"tcp://.+:[0-9]+")

AGAIN_S = 1.0
"""How long a worker waits before it looks for the token again."""
ANSWER_S = 5.0
"""How long a coordinator has to answer before the token may be another run's, and is read again."""
MOST_ALIKE = 1000
"""Workers of one name, on hosts that are called the same."""


def arguments(description: str) -> argparse.Namespace:
    """What a worker is started with."""
    parser = argparse.ArgumentParser(prog="python -m prism.gpu.worker", description=description)
    parser.add_argument("--coordinator", required=True, help="address of the coordinator, tcp://host:port")
    parser.add_argument(
        "--token-file", "--keys", required=True, type=Path, help="the file with its keys that the coordinator wrote"
    )
    parser.add_argument("--name", default="", help="the worker's name in the run; its host's if left out")
    parser.add_argument("--host", default="", help="where other workers reach this host; found out if left out")
    parser.add_argument("--wait", type=float, default=300.0, help="how long a coordinator may be in coming, in seconds")
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)  # private, of a launcher on this host
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)  # the only worker of its run
    options = parser.parse_args()
    if options.name and _UNNAMEABLE.search(options.name):
        parser.error(f"--name: expected letters, digits, '_' and '-', got {options.name!r}")
    if not _ADDRESS.fullmatch(options.coordinator):  # else it would be tried again until patience ends
        parser.error(f"--coordinator: expected tcp://host:port, got {options.coordinator!r}")
    return options


@asynccontextmanager
async def enlisted(
    options: argparse.Namespace,
) -> AsyncIterator[tuple[str, Channel[FromCoordinator, FromWorker], Ferry | None]]:
    """A worker's name, its channel to the coordinator, and its ferry, where it is not the only worker."""
    admitted = await enlist(options.coordinator, options.token_file, options.name, options.wait)
    ferry: Ferry | None = None
    async with Channel[FromCoordinator, FromWorker](admitted.connection, Codec(FromCoordinator)) as channel:
        try:
            if not options.alone:
                ferry = Ferry(admitted.name, options.host or reached_at(options.coordinator), admitted.keys)
            yield admitted.name, channel, ferry
        finally:
            if ferry is not None:
                ferry.close()


class NotReached(RunError):
    """The coordinator did not admit a worker, or nobody answers: it may do so later."""


@dataclass(frozen=True)
class Enlisted:
    """A worker that the coordinator has admitted."""

    name: str
    keys: WorkerKeys
    connection: Connection


async def enlist(address: str, token: Path, name: str, patience_s: float) -> Enlisted:
    """Join the run at `address` with its token; both may be some time in coming. Raises RunError when patience ends.

    Without a name it gets that of its host, with a number behind it where that is taken.
    """
    give_up = time.monotonic() + patience_s
    while True:
        try:
            return await _join(address, WorkerKeys.load(token), name)
        except RunError as error:
            to_come = isinstance(error, NotReached) or isinstance(error.__cause__, FileNotFoundError)
            if not to_come or time.monotonic() + AGAIN_S > give_up:
                raise
        await asyncio.sleep(AGAIN_S)


async def _join(address: str, keys: WorkerKeys, name: str) -> Enlisted:
    host = name or host_name()
    for number in range(1, MOST_ALIKE):
        called = host if number == 1 else f"{host}-{number}"
        try:
            return Enlisted(called, keys, await connect(address, called, keys, within=ANSWER_S))
        except IdentityTaken as error:
            if name:
                raise NotReached(str(error)) from error
        except RunError as error:
            raise NotReached(str(error)) from error
    raise RunError(f"{MOST_ALIKE} workers are called {host}; give this one a --name")


def host_name() -> str:
    """This host's name as names of files may begin with it."""
    return _UNNAMEABLE.sub("-", socket.gethostname()) or "worker"


def reached_at(address: str) -> str:
    """The address of this host on its way to the coordinator, where other workers reach it too."""
    parts = urlsplit(address)
    if parts.hostname is None or parts.port is None:
        raise RunError(f"--coordinator: expected tcp://host:port, got {address}")
    family = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family[0], socket.SOCK_DGRAM) as way:
        way.connect(family[4])  # nothing is sent: the kernel chooses the way
        host = str(way.getsockname()[0])
    return f"[{host}]" if ":" in host else host
