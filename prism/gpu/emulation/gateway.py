"""The gateway of a host: where FIFOs and the board of an emulation leave for other hosts, and come in from them.

It belongs to the worker. Each FIFO that has its ends on two hosts has a connection of its own, and a thread here that
is in the engine most of the time (prism.gpu.pruned.bridge).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prism.core.graph import Int64
from prism.gpu.emulation import relay
from prism.gpu.emulation.door import BEGIN_S, Door
from prism.gpu.pruned.bridge import Line, Link, carry, dial

BOARD = Link("\0board")
GRACE_S = 10.0
"""How long those who know why something broke have to say so."""


@dataclass(frozen=True)
class Traffic:
    """What crosses this host's border: FIFOs out, with where to; who sees the board, and the cells that are told."""

    token: bytes
    directory: Path
    out: Sequence[tuple[Link, str]]
    others: Sequence[str]
    cells: Int64
    own: Int64
    awaited: bool  # whether others wait for what is told: posts of sandbox ranks


class Gateway:
    """Listens at `host`; `failed` hears of what breaks while an emulation goes on."""

    def __init__(self, host: str, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._traffic: Traffic | None = None
        self._stop = threading.Event()
        self._door = Door(host, self._meet)

    @property
    def address(self) -> str:
        """Where others dial, host:port."""
        return self._door.address

    def begin(self, traffic: Traffic) -> None:
        """Let everything cross. Raises OSError."""
        self._stop, self._traffic = threading.Event(), traffic
        self._door.open(traffic.token)
        lines = [_dial(one, traffic, BOARD) for one in traffic.others]
        every_s = relay.LOOK_S if traffic.awaited else relay.AT_LEISURE_S
        self._start(lambda: relay.tell(traffic.cells, traffic.own, lines, self._stop, every_s))
        for link, to in traffic.out:
            line = _dial(to, traffic, link)
            self._start(lambda link=link, line=line: carry(traffic.directory, link, line, True, self._stop))  # type: ignore[misc]

    def end(self) -> None:
        """The emulation is over."""
        self._door.open(None)
        self._traffic = None
        self._stop.set()

    def close(self) -> None:
        """Listen no more."""
        self.end()
        self._door.close()

    def _start(self, work: Callable[[], None], comes: bool = False) -> None:
        """In a thread; what `comes` from another host ends with the emulation, and not before."""
        stop = self._stop

        def run() -> None:
            try:
                work()
                if comes and not stop.is_set():
                    raise ConnectionError("another host has hung up")
            except Exception as error:  # any: the emulation would wait for ever
                if not stop.wait(GRACE_S):
                    self._failed(f"what crosses hosts in the emulation does not any more: {error}")

        threading.Thread(target=run, name="prism-bridge", daemon=True).start()

    def _meet(self, link: Link, line: Line) -> None:
        traffic, stop = self._traffic, self._stop
        if traffic is None:  # over since it was let in
            line.connection.close()
        elif link == BOARD:
            self._start(lambda: relay.hear(traffic.cells, line), comes=True)
        else:
            self._start(lambda: carry(traffic.directory, link, line, False, stop), comes=True)


def _dial(address: str, traffic: Traffic, link: Link) -> Line:
    """A connection to a host that may be behind this one in the beginning."""
    host, _, port = address.rpartition(":")
    return dial((host, int(port)), traffic.token, link, BEGIN_S)
