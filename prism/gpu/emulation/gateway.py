"""The gateway of a host: where FIFOs and the board of an emulation leave for other hosts, and come in from them.

It belongs to the worker. Each FIFO that has its ends on two hosts has a connection of its own, and a thread here that
is in the engine most of the time (prism.gpu.pruned.bridge). Who dials knows the token; nothing is encrypted.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prism.core.graph import Int64
from prism.gpu.emulation import relay
from prism.gpu.pruned.bridge import Link, answer, carry, dial

BOARD, ECHO = Link("\0board"), Link("\0echo")
PINGS = 20
BEGIN_S = 60.0
"""How long another host may be ahead of this one in the beginning of an emulation."""
GRACE_S = 10.0
"""How long those who know why something broke have to say so."""
AGAIN_S = 0.1
"""Until who could not be let in for want of something is let in again."""
MOST_STRANGERS = 64
"""Connections that have not shown the token."""


@dataclass(frozen=True)
class Traffic:
    """What crosses this host's border: FIFOs out, with where to; who sees the board, and the cells that are told."""

    token: bytes
    directory: Path
    out: Sequence[tuple[Link, str]]
    others: Sequence[str]
    answered: Sequence[str]  # those whose sandbox ranks assistants here answer
    cells: Int64
    own: Int64
    awaited: bool  # whether others wait for what is told: posts of sandbox ranks


class Gateway:
    """Listens at `host`; `failed` hears of what breaks while an emulation goes on."""

    def __init__(self, host: str, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._server = socket.create_server((host.strip("[]"), 0), family=_family(host))
        self._traffic: Traffic | None = None
        self._begun = threading.Condition()
        self._stop = threading.Event()
        self._strangers = threading.Semaphore(MOST_STRANGERS)
        threading.Thread(target=self._accept, name="prism-gateway", daemon=True).start()

    @property
    def address(self) -> str:
        """Where others dial, host:port."""
        host, port = self._server.getsockname()[:2]
        return f"{host}:{port}"

    def begin(self, traffic: Traffic) -> int:
        """Let everything cross; returns how long the way to those that are answered takes, in ns. Raises OSError."""
        self._stop = threading.Event()
        with self._begun:
            self._traffic = traffic
            self._begun.notify_all()
        lead = min((_way(_place(one), traffic.token) for one in traffic.answered), default=0)
        lines = [dial(_place(one), traffic.token, BOARD) for one in traffic.others]
        every_s = relay.LOOK_S if traffic.awaited else relay.AT_LEISURE_S
        self._start(lambda: relay.tell(traffic.cells, traffic.own, lines, self._stop, every_s))
        for link, to in traffic.out:
            line = dial(_place(to), traffic.token, link)
            self._start(lambda link=link, line=line: carry(traffic.directory, link, line, True, self._stop))  # type: ignore[misc]
        return lead

    def end(self) -> None:
        """The emulation is over."""
        with self._begun:
            self._traffic = None
        self._stop.set()

    def close(self) -> None:
        """Listen no more."""
        self.end()
        self._server.close()

    def _start(self, work: Callable[[], None]) -> None:
        stop = self._stop

        def run() -> None:
            try:
                work()
            except Exception as error:  # any: the emulation would wait for ever
                if not stop.wait(GRACE_S):
                    self._failed(f"what crosses hosts in the emulation does not any more: {error}")

        threading.Thread(target=run, name="prism-bridge", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                if self._server.fileno() < 0:  # closed
                    return
                time.sleep(AGAIN_S)  # no descriptor is free, for one; who dials waits
                continue
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._meet, args=(connection,), name="prism-met", daemon=True).start()

    def _meet(self, connection: socket.socket) -> None:
        try:
            with self._begun:
                self._begun.wait_for(lambda: self._traffic is not None, BEGIN_S)
                traffic = self._traffic
            link = None if traffic is None else answer(connection, traffic.token)
        except OSError:  # PermissionError is one
            link = None
        finally:
            self._strangers.release()
        if traffic is None or link is None:
            connection.close()
            return
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stop = self._stop
        if link == ECHO:
            _echo(connection)
        elif link == BOARD:
            self._start(lambda: relay.hear(traffic.cells, connection))
        else:
            self._start(lambda: carry(traffic.directory, link, connection, False, stop))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _way(address: tuple[str, int], token: bytes) -> int:
    """How long a byte takes there, in ns: half of the shortest way there and back."""
    with dial(address, token, ECHO) as line:
        ways = []
        for _ in range(PINGS):
            start = time.monotonic_ns()
            line.sendall(b"?")
            if not line.recv(1):
                raise ConnectionError("the other host hung up")
            ways.append(time.monotonic_ns() - start)
        return min(ways) // 2


def _echo(line: socket.socket) -> None:
    with line, contextlib.suppress(OSError):
        while data := line.recv(1):
            line.sendall(data)
